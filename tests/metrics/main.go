// Command lint checks the pages of metrics in these files with Prometheus' own parser and the rules of
// `promtool check metrics`, and prints the errors.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func main() {
	for _, name := range os.Args[1:] {
		page, err := os.Open(name)
		if err != nil {
			panic(err)
		}
		problems, err := promlint.New(page).Lint()
		if err != nil || len(problems) > 0 {
			fmt.Println(name, err, problems)
			os.Exit(1)
		}
	}
	fmt.Println(len(os.Args)-1, "pages are well-formed")
}
