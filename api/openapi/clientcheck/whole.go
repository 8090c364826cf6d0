package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// whole returns an error where a type could not hold all that was sent, or holds more:
// decoding alone is silent about a field with another name. So the value is written
// again and must be what came.
func whole(sent []byte, parsed any) error {
	written, err := json.Marshal(parsed)
	if err != nil {
		return fmt.Errorf("write answer again: %w", err)
	}
	var want, got map[string]any
	if err := json.Unmarshal(sent, &want); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if err := json.Unmarshal(written, &got); err != nil {
		return fmt.Errorf("read answer again: %w", err)
	}
	faults := append(missing(want, got, "lost or changed"), missing(got, want, "made up or changed")...)
	if len(faults) > 0 {
		slices.Sort(faults)
		return fmt.Errorf("the described type is not what was sent: %s\n  sent %s\n  kept %s", strings.Join(faults, ", "), sent, written)
	}
	return nil
}

// missing names what one object has and the other has not, or not so.
func missing(from, in map[string]any, fault string) []string {
	var faults []string
	for name, value := range from {
		if other, there := in[name]; !there || !reflect.DeepEqual(plain(value), plain(other)) {
			faults = append(faults, name+" "+fault)
		}
	}
	return faults
}

// plain writes times one way: the same moment has several spellings.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = plain(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = plain(inner)
		}
	case string:
		if moment, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return moment.UTC().Format(time.RFC3339Nano)
		}
	}
	return value
}
