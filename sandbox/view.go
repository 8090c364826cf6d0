package sandbox

import (
	"net/http"
	"strings"
	"time"
)

// The forms in which an answer may be written besides the plain one.
const (
	// FormMark: it begins with a byte order mark.
	FormMark = "bom"
	// FormSparse: amounts that it need not have are "", echoes of them are zero.
	FormSparse = "sparse"
)

// View is an order as the wire carries it.
type View struct {
	OrderID        string  `json:"order_id"`
	ClientOrderID  string  `json:"client_order_id"`
	Status         string  `json:"status"`
	Code           string  `json:"code,omitempty"`
	Message        string  `json:"message,omitempty"`
	Cost           string  `json:"cost,omitempty"`
	FilledQuantity string  `json:"filled_quantity,omitempty"`
	Symbol         string  `json:"symbol"`
	Quantity       *string `json:"quantity"`
	LimitPrice     *string `json:"limit_price"`
	Notional       *string `json:"notional"`

	form string
}

// ListedView is an order in the list.
type ListedView struct {
	View
	Account   string    `json:"account"`
	CreatedAt time.Time `json:"created_at"`
}

func (r *record) view() *View {
	o := r.Order
	v := &View{
		OrderID: o.ID, ClientOrderID: r.Key, Status: o.Status, Symbol: r.Request.Symbol,
		Quantity: r.Request.Quantity, LimitPrice: r.Request.LimitPrice, Notional: r.Request.Notional,
		form: o.Form,
	}
	if o.Echo != "" {
		v.Quantity = &o.Echo
	}
	if o.working() {
		v.Status = "processing"
		return v
	}
	v.Code, v.Cost, v.FilledQuantity = o.Code, o.Cost, o.Filled
	if o.Code != "" {
		v.Message = "refused by the sandbox"
	}
	return v
}

// viewAfter is what a place call may answer: nil if nothing is booked.
func (r *record) viewAfter(act Response) *View {
	if r.Order == nil {
		return nil
	}
	v := r.view()
	if act.Corrupt == LieKey {
		v.ClientOrderID = "not-" + v.ClientOrderID
	}
	return v
}

// listed is what the list has under the key.
func (r *record) listed() []ListedView {
	if r.Order == nil || r.Order.Unlisted {
		return nil
	}
	first := ListedView{View: *r.view(), Account: r.Request.Account, CreatedAt: r.Order.BookedAt}
	if r.Order.ListedCost != "" {
		first.Cost = r.Order.ListedCost
	}
	if r.Order.ListedFilled != "" {
		first.FilledQuantity = r.Order.ListedFilled
	}
	if !r.Order.Second {
		return []ListedView{first}
	}
	second := first
	second.OrderID = orderID(r.Key + " second")
	return []ListedView{first, second}
}

// writeView writes an order in its form.
func writeView(w http.ResponseWriter, status int, v *View) {
	body := encode(v)
	switch v.form {
	case FormMark:
		body = "\ufeff" + body
	case FormSparse:
		body = strings.NewReplacer(`"quantity":null`, `"quantity":""`, `"limit_price":null`, `"limit_price":"0"`, `"notional":null`, `"notional":"0.00"`).Replace(body)
		members := `{"x":1,"x":2,`
		if v.Cost == "" {
			members += `"cost":"",`
		}
		body = strings.Replace(body, "{", members, 1)
	}
	writeBody(w, status, "application/json", body)
}
