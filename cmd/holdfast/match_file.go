package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
)

const (
	// maxLine is the maximum length of a line, the same as for a broker's answer.
	maxLine = broker.MaxBody
	// maxBadLines is how many malformed lines are named.
	maxBadLines = 20
)

// readFile reads the complete list before anything is compared.
func (c *matchCommand) readFile(a *cli) ([]broker.ListedOrder, error) {
	switch c.File {
	case "":
		return nil, nil
	case "-":
		return readOrders(a.in, "standard input")
	}
	file, err := os.Open(c.File)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readOrders(file, c.File)
}

func readOrders(in io.Reader, name string) ([]broker.ListedOrder, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	var orders []broker.ListedOrder
	var bad []string
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		order, err := httpbroker.ReadListed(line)
		if err != nil {
			bad = append(bad, fmt.Sprintf("line %d: %v", number, err))
			continue
		}
		orders = append(orders, order)
	}
	if err := lines.Err(); err != nil {
		bad = append(bad, fmt.Sprintf("line %d: %v", number+1, err))
	}
	if len(bad) == 0 {
		return orders, nil
	}
	rest := ""
	if len(bad) > maxBadLines {
		bad, rest = bad[:maxBadLines], fmt.Sprintf("; and %d more", len(bad)-maxBadLines)
	}
	return nil, &usageError{fmt.Sprintf("%s is not a list of orders; nothing was compared: %s%s", name, strings.Join(bad, "; "), rest)}
}
