package main

import (
	"syscall"
	"testing"
	"time"
)

// A process freezes repeatedly during its work, as if its machine were paused. The locks it
// holds at that moment do not block others for long, its own customers get their answers when
// it continues, and no number is used twice.
func TestFrozenProcess(t *testing.T) {
	t.Parallel()
	w := setup(t, append([]string{"HOLDFAST_PENDING_GRACE=20s"}, patient...)...)
	f := startTraffic(t, w, launch(t, w.settings), launch(t, w.settings))
	for range 3 {
		f.flows(15)
		send(t, f.nodes[1], syscall.SIGSTOP)
		took := f.flows(15)
		send(t, f.nodes[1], syscall.SIGCONT)
		t.Logf("next to a frozen process it takes %s", took.Round(time.Millisecond))
		// A frozen transaction keeps its account's lock for 5 s, and so may one that waited for
		// it.
		if took > 30*time.Second {
			t.Error("that is too long")
		}
	}
	f.end(w.settings, w.database)
}

func send(t *testing.T, s *serving, what syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(what); err != nil {
		t.Fatal(err)
	}
}
