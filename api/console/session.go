package console

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"holdfast/auth"
	"holdfast/internal/httpserver"
)

const (
	cookieName = "holdfast_session"
	loginPath  = "/console/login"
	homePath   = "/console/"
)

// operator lets an operator's session through. Without one a page leads to the login,
// and anything else is refused.
func (c *console) operator(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := c.Keys.Session(r.Context(), sessionToken(r))
		switch {
		case err == nil:
			c.Identified(r.Context(), p.KeyID)
			next.ServeHTTP(w, r.WithContext(auth.With(r.Context(), p)))
		case errors.Is(err, auth.ErrUnauthorized) && wantsPage(r):
			http.Redirect(w, r, loginPath+"?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		case errors.Is(err, auth.ErrUnauthorized):
			c.Refuse(w, r, ErrNoSession)
		default:
			c.Refuse(w, r, err)
		}
	})
}

func sessionToken(r *http.Request) string {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// wantsPage tells a page from what a page loads: River's data and files are no pages,
// nor is what a client asks for as something else than HTML.
func wantsPage(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if strings.HasPrefix(r.URL.Path, "/river/api/") || strings.HasPrefix(r.URL.Path, "/river/assets/") {
		return false
	}
	accept := r.Header.Get("Accept")
	return accept == "" || strings.Contains(accept, "text/html") || strings.Contains(accept, "*/*")
}

type loginView struct {
	Next, Trouble string
}

func (c *console) loginPage(w http.ResponseWriter, r *http.Request) {
	render(w, http.StatusOK, "login", loginView{Next: safeNext(r.URL.Query().Get("next"))})
}

func (c *console) login(w http.ResponseWriter, r *http.Request) {
	if r.ParseForm() != nil {
		render(w, http.StatusBadRequest, "login", loginView{homePath, "The form did not arrive completely. Try again."})
		return
	}
	next := safeNext(r.PostFormValue("next"))
	token, expiresAt, err := c.Keys.Login(r.Context(), strings.TrimSpace(r.PostFormValue("key")), httpserver.ClientAddr(r))
	if err != nil {
		c.refuseLogin(w, r, next, err)
		return
	}
	http.SetCookie(w, sessionCookie(r, token, expiresAt))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (c *console) refuseLogin(w http.ResponseWriter, r *http.Request, next string, err error) {
	var tooMany *auth.TooManyAttemptsError
	switch {
	case errors.Is(err, auth.ErrUnauthorized):
		c.Log.WarnContext(r.Context(), "login failed")
		render(w, http.StatusUnauthorized, "login", loginView{next, "This is not an operator's key, or it is no longer active."})
	case errors.As(err, &tooMany):
		w.Header().Set("Retry-After", strconv.Itoa(int(tooMany.RetryAfter/time.Second)+1))
		render(w, http.StatusTooManyRequests, "login", loginView{next, "Too many failed logins from your address. Wait a few seconds."})
	default:
		c.Refuse(w, r, err)
	}
}

func (c *console) logout(w http.ResponseWriter, r *http.Request) {
	if err := c.Keys.Logout(r.Context(), sessionToken(r)); err != nil {
		c.Refuse(w, r, err)
		return
	}
	http.SetCookie(w, sessionCookie(r, "", time.Unix(1, 0)))
	http.Redirect(w, r, loginPath, http.StatusSeeOther)
}

// sessionCookie is out of reach for scripts and other sites' pages, and for the wire
// wherever there is TLS, be it at the proxy in front. A made-up X-Forwarded-Proto can
// only make the cookie stricter.
func sessionCookie(r *http.Request, token string, expires time.Time) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Without TLS a Secure cookie would be none.
		Name: cookieName, Value: token, Path: "/", Expires: expires,
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"),
	}
}

// safeNext keeps a made-up link from leading away from here after the login. It judges
// the path that a browser would make of it, and returns that one.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || strings.ContainsFunc(next, isUnsafe) {
		return homePath
	}
	clean := path.Clean("/" + u.Path)
	if strings.HasSuffix(u.Path, "/") && clean != "/" {
		clean += "/"
	}
	if !strings.HasPrefix(clean, homePath) && !strings.HasPrefix(clean, "/river/") {
		return homePath
	}
	return (&url.URL{Path: clean, RawQuery: u.RawQuery}).RequestURI()
}

func isUnsafe(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f }
