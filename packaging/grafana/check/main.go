// Command check reads boards as Grafana's schema has them, and says what in them does not fit.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// check returns nil for a board without an unknown field, a missing one or a wrong type.
func check(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var strict, board dashboard.Dashboard
	if err := some(strict.UnmarshalJSONStrict(text)); err != nil {
		return err
	}
	// The strict way finds faults, but does not keep the panels (SDK v0.0.22).
	if err := json.Unmarshal(text, &board); err != nil {
		return err
	}
	for i, panel := range board.Panels {
		if panel.RowPanel != nil {
			continue
		}
		// The SDK does not look into a panel that it does not know.
		if _, ok := cog.ConfigForPanelcfgVariant(panel.Panel.Type); !ok {
			return fmt.Errorf("panels[%d].type: Grafana has no panel %q", i, panel.Panel.Type)
		}
	}
	return some(board.Validate())
}

// some makes nothing of a list of no errors, which the SDK returns as an error that is not nil.
func some(err error) error {
	var list cog.BuildErrors
	if errors.As(err, &list) && len(list) == 0 {
		return nil
	}
	return err
}

func main() {
	plugins.RegisterDefaultPlugins()
	status := 0
	for _, name := range os.Args[1:] {
		if err := check(name); err != nil {
			fmt.Printf("%s: %v\n", name, err)
			status = 1
		}
	}
	os.Exit(status)
}
