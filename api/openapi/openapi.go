package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"go.yaml.in/yaml/v4"
)

//go:embed openapi.yaml
var source []byte

// JSON returns the document.
var JSON = sync.OnceValue(func() []byte {
	var document any
	if err := yaml.Unmarshal(source, &document); err != nil {
		panic(fmt.Errorf("read openapi.yaml: %w", err))
	}
	written, err := json.Marshal(document)
	if err != nil {
		panic(fmt.Errorf("write openapi.json: %w", err))
	}
	return written
})
