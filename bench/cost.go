package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

var costColumns = []string{
	"allocations", "allocated_kB", "cpu_ms", "postgres_cpu_ms", "wal_kB", "round_trips", "relay_round_trips",
}

// cost measures what one purchase takes, at the usual number of clients.
func (l *env) cost() ([]Case, error) {
	product, err := l.product()
	if err != nil {
		return nil, err
	}
	calling, err := l.startBaseline(l.broker.url())
	if err != nil {
		return nil, err
	}
	counted, trips, err := l.counted()
	if err != nil {
		return nil, err
	}
	if err := l.warm(product, calling, counted); err != nil {
		return nil, err
	}
	c, err := l.compare(fmt.Sprintf("a purchase, %d clients", l.o.Busy), costColumns,
		subject{"holdfast", func() (Values, error) {
			values, err := l.price(product)
			if err != nil {
				return nil, err
			}
			return values, l.addTrips(values, counted, trips)
		}},
		subject{"baseline with the broker's call", func() (Values, error) { return l.price(calling) }})
	c.Note = "of the server's process, of Postgres, and round trips of the requests' pool and of all others; what runs beside the purchases is included"
	return []Case{c}, err
}

// counted starts a product whose round trips are counted.
func (l *env) counted() (*server, *proxy, error) {
	database, err := l.copyOf(productTemplate)
	if err != nil {
		return nil, nil, err
	}
	p, through, err := startProxy(l.url(database))
	if err != nil {
		return nil, nil, err
	}
	l.onEnd(p.close)
	s, err := l.serveAt(l.o.Program, through, []string{"serve"})
	return s, p, err
}

func (l *env) addTrips(values Values, s *server, p *proxy) error {
	before := p.counts()
	latencies, _, err := l.load(s, l.o.Busy, l.o.Accounts).run(l.ctx)
	if err != nil {
		return err
	}
	for name, count := range p.counts() {
		made := float64(count-before[name]) / float64(len(latencies))
		if name == "holdfast requests" {
			values["round_trips"] = made
		} else {
			values["relay_round_trips"] += made
		}
	}
	return nil
}

// meter is what the counters stood at.
type meter struct {
	process Values
	wal     float64
	cpu     time.Duration
}

func (l *env) price(s *server) (Values, error) {
	before, err := l.read(s)
	if err != nil {
		return nil, err
	}
	latencies, _, err := l.load(s, l.o.Busy, l.o.Accounts).run(l.ctx)
	if err != nil {
		return nil, err
	}
	after, err := l.read(s)
	if err != nil {
		return nil, err
	}
	each := 1 / float64(len(latencies))
	process := func(name string) float64 { return (after.process[name] - before.process[name]) * each }
	return Values{
		"allocations": process("go_memstats_mallocs_total"), "allocated_kB": process("go_memstats_alloc_bytes_total") / 1024,
		"cpu_ms": process("process_cpu_seconds_total") * 1000,
		"wal_kB": (after.wal - before.wal) / 1024 * each, "postgres_cpu_ms": milliseconds(after.cpu-before.cpu) * each,
	}, nil
}

func (l *env) read(s *server) (m meter, err error) {
	if m.cpu, err = treeCPU(l.postgres.PID()); err != nil {
		return m, err
	}
	if m.process, err = s.scrape(l.ctx); err != nil {
		return m, err
	}
	err = l.admin.QueryRow(l.ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8").Scan(&m.wal)
	return m, err
}

// treeCPU is what a process, its children, and those it has buried have used. Only Linux
// tells; elsewhere it is 0.
func treeCPU(pid int) (time.Duration, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(paths) == 0 {
		return 0, err
	}
	var ticks int64
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		used, parent := statOf(string(text))
		if parent == strconv.Itoa(pid) || path == fmt.Sprintf("/proc/%d/stat", pid) {
			ticks += used
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // a hundred ticks a second, on every Linux
}

// statOf reads the fields behind the command's name, which may hold anything.
func statOf(text string) (ticks int64, parent string) {
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	if len(fields) < 15 {
		return 0, ""
	}
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		value, _ := strconv.ParseInt(field, 10, 64)
		ticks += value
	}
	return ticks, fields[1]
}

// profile lets a server of its own write its CPU and allocation profiles under load.
func (l *env) profile(dir string) (err error) {
	defer func() { err = errors.Join(err, l.endFigure()) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make folder for profiles: %w", err)
	}
	database, err := l.copyOf(productTemplate)
	if err != nil {
		return err
	}
	s, err := l.serveAt(l.o.Self, l.url(database), []string{"--part", "serve-profiled", "--profile", dir})
	if err != nil {
		return err
	}
	l.say("profile")
	if _, err := l.runLoad(s, l.o.Busy, l.o.Accounts); err != nil {
		return err
	}
	return s.stop()
}
