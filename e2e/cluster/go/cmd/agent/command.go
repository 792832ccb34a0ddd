package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// programs are the host programs the agent calls, with the Debian package of each.
var programs = map[string]string{
	"losetup":    "mount",
	"mkfs.xfs":   "xfsprogs",
	"mount":      "mount",
	"nft":        "nftables",
	"umount":     "mount",
	"xfs_growfs": "xfsprogs",
}

// requirePrograms fails at the start rather than at the first volume.
func requirePrograms() error {
	var missing []error
	for program, pkg := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, fmt.Errorf("program %s: %w (Debian package %s)", program, err, pkg))
		}
	}
	return errors.Join(missing...)
}

// command runs a program and returns what it printed. Its error says what the
// program wrote to stderr, for an exit status alone explains nothing; if the
// agent is being stopped, it is that of the context.
func command(ctx context.Context, input, program string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Stdin = strings.NewReader(input)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	output, err := cmd.Output()
	if err != nil && ctx.Err() != nil {
		return "", fmt.Errorf("%s: %w", cmd, ctx.Err())
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, oneLine(complaint.String()))
	}
	return string(output), nil
}

// oneLine keeps a log entry one line.
func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}
