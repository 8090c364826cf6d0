package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"iter"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"text/template"
	"time"

	"holdfast/client"
)

// nginx is a real nginx with the configuration in docs/events.md and otherwise its defaults.
// Buffering is on, and it compresses whatever it may.
var nginxConfig = template.Must(template.New("").Parse(`
daemon off;
master_process off;
pid {{.Dir}}/nginx.pid;
error_log {{.Dir}}/error.log warn;
events {}
http {
	access_log off;
	client_body_temp_path {{.Dir}}/body;
	proxy_temp_path {{.Dir}}/proxy;
	fastcgi_temp_path {{.Dir}}/fastcgi;
	uwsgi_temp_path {{.Dir}}/uwsgi;
	scgi_temp_path {{.Dir}}/scgi;
	gzip on;
	gzip_min_length 0;
	gzip_proxied any;
	gzip_types text/event-stream application/json;
	upstream holdfast {
		server {{.Upstream}};
		keepalive 16;
	}
	server {
		listen {{.Plain}};
		listen {{.TLS}} ssl http2;
		ssl_certificate {{.Dir}}/cert.pem;
		ssl_certificate_key {{.Dir}}/key.pem;
		location / {
			proxy_pass http://holdfast;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_read_timeout 60s;
		}
		location /http10/ {
			proxy_pass http://holdfast/;
			proxy_read_timeout 60s;
		}
	}
}
`))

// nginx is a proxy in front of one api process.
type nginx struct {
	t        *testing.T
	Dir      string
	Upstream string
	// plain and tls are the addresses that it listens on.
	Plain, TLS string
	cmd        *exec.Cmd
	ended      chan struct{}
}

// nginxPath fails in CI if there is none (make peers).
func nginxPath(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no nginx: run make peers")
	}
	t.Skip("no nginx: run make peers")
	return ""
}

func startNginx(t *testing.T, upstream string) *nginx {
	t.Helper()
	n := &nginx{t: t, Dir: t.TempDir(), Upstream: upstream}
	n.certify()
	t.Cleanup(func() { n.stop() })
	// A free port may be taken before nginx has it.
	for range 5 {
		n.Plain, n.TLS = freeAddr(t), freeAddr(t)
		if n.start() {
			return n
		}
	}
	t.Fatalf("nginx does not start:\n%s", n.log())
	return nil
}

func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// start reports whether it listens; it may be restarted after a stop.
func (n *nginx) start() bool {
	n.t.Helper()
	var config bytes.Buffer
	if err := nginxConfig.Execute(&config, n); err != nil {
		n.t.Fatal(err)
	}
	n.write("nginx.conf", config.Bytes())
	n.cmd = exec.Command(nginxPath(n.t), "-p", n.Dir, "-e", filepath.Join(n.Dir, "error.log"), "-c", filepath.Join(n.Dir, "nginx.conf"))
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.ended = make(chan struct{})
	go func() { defer close(n.ended); _ = n.cmd.Wait() }()
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); {
		select {
		case <-n.ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
		if conn, err := new(net.Dialer).DialContext(n.t.Context(), "tcp", n.TLS); err == nil {
			_ = conn.Close()
			return true
		}
	}
	return false
}

// stop ends all streams.
func (n *nginx) stop() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	<-n.ended
}

func (n *nginx) log() string {
	text, _ := os.ReadFile(filepath.Join(n.Dir, "error.log"))
	return string(text)
}

func (n *nginx) write(name string, text []byte) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.Dir, name), text, 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *nginx) certify() {
	n.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		n.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		n.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		n.t.Fatal(err)
	}
	n.write("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	n.write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// way is one way through nginx: the base address and the client to use.
type way struct {
	url   string
	proto int
	http  *http.Client
}

// ways are HTTP/1.1 on both sides, HTTP/2 towards the client, and HTTP/1.0 towards Holdfast,
// nginx's default.
func (n *nginx) ways() map[string]way {
	n.t.Helper()
	roots := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(n.Dir, "cert.pem"))
	if err != nil || !roots.AppendCertsFromPEM(text) {
		n.t.Fatalf("certificate: %v", err)
	}
	client := func() *http.Client {
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, ResponseHeaderTimeout: busy,
		}
		n.t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	return map[string]way{
		"HTTP1":       {"http://" + n.Plain, 1, client()},
		"HTTP2":       {"https://" + n.TLS, 2, client()},
		"HTTP10Below": {"http://" + n.Plain + "/http10", 1, client()},
	}
}

// stream opens a stream. Go's client requests gzip automatically and decompresses it.
func (w way) stream(t *testing.T, key, last string) (events <-chan event, comments <-chan struct{}, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Last-Event-ID", last)
	got, err := w.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if got.StatusCode != http.StatusOK || got.ProtoMajor != w.proto || got.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("stream: %s %s %v", got.Proto, got.Status, got.Header)
	}
	e, c := make(chan event, 100), make(chan struct{}, 100)
	go func() {
		defer got.Body.Close()
		readEvents(commented{got.Body, c}, func(one event) { e <- one })
		cancel()
	}()
	return e, c, cancel
}

// commented records comments as they are read.
type commented struct {
	from interface{ Read([]byte) (int, error) }
	each chan struct{}
}

func (c commented) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if bytes.HasPrefix(p[:n], []byte(":\n")) || bytes.Contains(p[:n], []byte("\n:\n")) {
		c.each <- struct{}{}
	}
	return n, err
}

// Behind nginx, events arrive immediately, streams resume, idle ones stay open, and one whose
// client has disconnected is closed.
func TestStreamsBehindNginx(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := launch(t, w.settings)
	n := startNginx(t, s.addr)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.log())
		}
	})
	quiet, leaves := map[string]<-chan struct{}{}, []func(){}
	for name, way := range n.ways() {
		events, _, leave := way.stream(t, w.client, "0")
		quickest := waitTimeout
		for i := range 5 {
			_, p := s.buy(w.client, "acct-1", "AAPL", fmt.Sprintf("%s-%d", name, i))
			quickest = min(quickest, awaitEvent(t, events, p.ID, busy))
		}
		if quickest > time.Second {
			t.Errorf("%s: the quickest of five events takes %v", name, quickest)
		}
		leave()
		_, missed := s.buy(w.client, "acct-1", "REJECT", name+"-missed")
		events, quiet[name], leave = way.stream(t, w.client, "1")
		leaves = append(leaves, leave)
		awaitEvent(t, events, missed.ID, waitTimeout)
	}
	late := time.After(15 * time.Second)
	for name, comments := range quiet {
		select {
		case <-comments:
		case <-late:
			t.Fatalf("%s: no comment in fifteen seconds", name)
		}
	}
	for _, leave := range leaves {
		leave()
	}
	eventually(t, "streams are closed behind nginx, too", func() error {
		if n := s.streams(); n != 0 {
			return fmt.Errorf("%d streams", n)
		}
		return nil
	})
}

// nginx is restarted during a stream: the client reconnects and gets each event once.
func TestClientResumesBehindNginx(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := launch(t, w.settings)
	n := startNginx(t, s.addr)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(client.Config{URL: "http://" + n.Plain, Key: w.client, HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	next, stop := iter.Pull2(c.Events(ctx, client.EventsParams{After: "0"}))
	defer stop()
	for i := range 6 {
		_, p := s.buy(w.client, "acct-1", "AAPL", strconv.Itoa(i))
		if e, err, ok := next(); !ok || err != nil || e.PurchaseID != p.ID {
			t.Fatalf("event %d: %+v %v %v, want %s", i, e, err, ok, p.ID)
		}
		if i%2 == 0 {
			n.stop()
			if !n.start() {
				t.Fatalf("nginx does not start again:\n%s", n.log())
			}
		}
	}
}

// busy is the maximum time for an event on a busy machine; a proxy that buffers events would
// keep it until the next comment.
const busy = 5 * time.Second

// awaitEvent waits for a purchase's event, skipping others, and returns how long it took.
func awaitEvent(t *testing.T, events <-chan event, id string, most time.Duration) time.Duration {
	t.Helper()
	began, late := time.Now(), time.After(most)
	for {
		select {
		case e := <-events:
			if e.PurchaseID == id {
				return time.Since(began)
			}
		case <-late:
			t.Fatalf("no event of %s after %v", id, most)
			return 0
		}
	}
}
