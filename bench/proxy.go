package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"sync"

	"github.com/jackc/pgx/v5"
)

// proxy stands between a program and Postgres and counts round trips: each Sync and each
// simple Query is one, whatever the driver. It counts by the session's application name.
type proxy struct {
	listener net.Listener
	network  string
	target   string
	mu       sync.Mutex
	trips    map[string]int64
}

// startProxy stands before the database of url and returns the address to use instead.
func startProxy(address string) (*proxy, string, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, "", fmt.Errorf("start proxy: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("start proxy: %w", err)
	}
	p := &proxy{listener: listener, trips: map[string]int64{}}
	p.network, p.target = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", config.Host, config.Port)
	go p.run()
	through := url.URL{
		Scheme: "postgres", User: url.User(config.User), Host: listener.Addr().String(), Path: "/" + config.Database,
		RawQuery: "sslmode=disable",
	}
	return p, through.String(), nil
}

func (p *proxy) close() error { return p.listener.Close() }

// counts is how many round trips each kind of session has made so far.
func (p *proxy) counts() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.trips)
}

func (p *proxy) run() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.session(conn)
	}
}

func (p *proxy) session(front net.Conn) {
	defer front.Close()
	back, err := net.Dial(p.network, p.target)
	if err != nil {
		return
	}
	defer back.Close()
	go func() {
		_, _ = io.Copy(front, back)
		_ = front.Close()
	}()
	_ = p.forward(back, bufio.NewReader(front))
}

// forward passes on what the program says, and looks at each message's type.
func (p *proxy) forward(back io.Writer, front *bufio.Reader) error {
	startup, err := readMessage(front, nil)
	if err != nil {
		return err
	}
	name := applicationName(startup)
	if _, err := back.Write(startup); err != nil {
		return err
	}
	for {
		kind, err := front.ReadByte()
		if err != nil {
			return err
		}
		message, err := readMessage(front, []byte{kind})
		if err != nil {
			return err
		}
		if kind == 'S' || kind == 'Q' {
			p.count(name)
		}
		if _, err := back.Write(message); err != nil {
			return err
		}
	}
}

func (p *proxy) count(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trips[name]++
}

// messageMax is far above anything that a purchase sends.
const messageMax = 64 << 20

// readMessage reads a length, which counts itself, and what it announces.
func readMessage(from io.Reader, head []byte) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size < 4 || size > messageMax {
		return nil, errors.New("a message has an impossible length")
	}
	message := append(append(head, length[:]...), make([]byte, size-4)...)
	_, err := io.ReadFull(from, message[len(head)+4:])
	return message, err
}

// applicationName finds it among a startup message's pairs.
func applicationName(startup []byte) string {
	if len(startup) < 8 {
		return ""
	}
	words := bytes.Split(startup[8:], []byte{0})
	for i := 0; i+1 < len(words); i += 2 {
		if string(words[i]) == "application_name" {
			return string(words[i+1])
		}
	}
	return ""
}
