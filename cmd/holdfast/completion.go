package main

import (
	"fmt"
	"os"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help describes the usage.
func (*completionCommand) Help() string {
	return `Add this line to the shell's startup file: source <(holdfast completion bash)`
}

// completions call the program itself, so they are never outdated.
var completions = map[string]string{
	"bash": "complete -C %[1]q holdfast\n",
	"zsh":  "autoload -U +X bashcompinit && bashcompinit\ncomplete -C %[1]q holdfast\n",
	"fish": `function __complete_holdfast
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct); and set COMP_LINE "$COMP_LINE "
    %[1]q
end
complete -f -c holdfast -a "(__complete_holdfast)"
`,
}

func (c *completionCommand) Run(a *cli) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own path: %w", err)
	}
	_, err = fmt.Fprintf(a.out, completions[c.Shell], self)
	return err
}
