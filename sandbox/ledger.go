package sandbox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// ledger is an append-only file with one JSON line for each change of a record. A line
// is one write, so the death of the process tears at most the last one.
type ledger struct{ file *os.File }

// openLedger reads path and keeps it open for more; an empty path keeps nothing.
func openLedger(path string) (*ledger, map[string]*record, error) {
	records := make(map[string]*record)
	if path == "" {
		return &ledger{}, records, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open sandbox ledger: %w", err)
	}
	size, err := readLedger(file, records)
	if err == nil {
		err = errors.Join(file.Truncate(size), seek(file, size))
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read sandbox ledger: %w", err), file.Close())
	}
	return &ledger{file: file}, records, nil
}

func seek(file *os.File, to int64) error {
	_, err := file.Seek(to, io.SeekStart)
	return err
}

// readLedger returns where the last whole line ends: what follows was torn and is cut
// off, or the next line would be glued to it.
func readLedger(file io.Reader, records map[string]*record) (int64, error) {
	reader := bufio.NewReader(file)
	var size int64
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return 0, err
		}
		if err := keepLine(line, records); err != nil {
			return 0, fmt.Errorf("at byte %d: %w", size, err)
		}
		size += int64(len(line))
	}
}

// keepLine takes a record, or a line "{}", which forgets all before it.
func keepLine(line []byte, records map[string]*record) error {
	var rec record
	if err := json.Unmarshal(bytes.TrimSpace(line), &rec); err != nil {
		return err
	}
	if rec.Key == "" {
		clear(records)
		return nil
	}
	records[rec.Key] = &rec
	return nil
}

func (l *ledger) append(value any) error {
	if l.file == nil {
		return nil
	}
	line, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode ledger line: %w", err)
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write ledger line: %w", err)
	}
	return nil
}

func (l *ledger) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
