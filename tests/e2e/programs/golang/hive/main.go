// Runs statements with gohive, as its README shows it, and prints a JSON object: statement by statement, its answer.
// Standard input: {"host", "port", "user", "password", "authority", "statements": [...]}; with an `authority`, the
// file of a certificate, over TLS.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/beltran/gohive"
	"github.com/beltran/gohive/hiveserver"
)

type asked struct {
	Host, User, Password, Authority string
	Port                            int
	Statements                      []string
}

type answer struct {
	Columns [][]string       `json:"columns,omitempty"`
	Rows    []map[string]any `json:"rows,omitempty"`
	Error   string           `json:"error,omitempty"`
	Message string           `json:"message,omitempty"`
	Code    int              `json:"code,omitempty"`
}

func failed(err error) answer {
	found := answer{Error: err.Error()}
	var hive gohive.HiveError
	if errors.As(err, &hive) {
		found.Message, found.Code = hive.Message, hive.ErrorCode
	}
	return found
}

func ask(connection *gohive.Connection, statement string) answer {
	ctx := context.Background()
	cursor := connection.Cursor()
	defer cursor.Close()
	cursor.Exec(ctx, statement)
	if cursor.Err != nil {
		return failed(cursor.Err)
	}
	given := answer{Columns: cursor.Description(), Rows: []map[string]any{}}
	for cursor.HasMore(ctx) {
		row := cursor.RowMap(ctx)
		if cursor.Err != nil {
			return failed(cursor.Err)
		}
		for name, value := range row {
			if number, ok := value.(float64); ok {
				row[name] = fmt.Sprint(number) // JSON has neither NaN nor infinity
			}
		}
		given.Rows = append(given.Rows, row)
	}
	if cursor.Err != nil {
		return failed(cursor.Err)
	}
	return given
}

// cancelled begins a statement, cancels it and says in which state it ended.
func cancelled(connection *gohive.Connection) string {
	ctx := context.Background()
	cursor := connection.Cursor()
	defer cursor.Close()
	cursor.Execute(ctx, "SELECT count(*) FROM range(30000000000) WHERE id % 7 = 8", true)
	if cursor.Err != nil {
		return cursor.Err.Error()
	}
	for *cursor.Poll(false).OperationState != hiveserver.TOperationState_RUNNING_STATE {
	}
	cursor.Cancel()
	if cursor.Err != nil {
		return cursor.Err.Error()
	}
	for !cursor.Finished() {
	}
	return fmt.Sprint(cursor.Poll(false).OperationState)
}

func main() {
	var given asked
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	configuration := gohive.NewConnectConfiguration()
	configuration.Username, configuration.Password = given.User, given.Password
	configuration.FetchSize = 100
	configuration.PollIntervalInMillis = 20
	if given.Authority != "" {
		pem, err := os.ReadFile(given.Authority)
		if err != nil {
			panic(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		configuration.TLSConfig = &tls.Config{RootCAs: roots, ServerName: given.Host}
	}
	connection, err := gohive.Connect(given.Host, given.Port, "LDAP", configuration)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if len(given.Statements) == 0 { // it was about the login
		connection.Close()
		fmt.Println("{}")
		return
	}
	answers := map[string]any{}
	for _, statement := range given.Statements {
		answers[statement] = ask(connection, statement)
	}
	answers["(cancel)"] = cancelled(connection)
	answers["(logs)"] = logs(connection)
	connection.Close()
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}

// logs says how many lines of the server's log a client gets, which asks for them while it waits.
func logs(connection *gohive.Connection) string {
	cursor := connection.Cursor()
	defer cursor.Close()
	cursor.Exec(context.Background(), "SELECT 1")
	lines := cursor.FetchLogs()
	if cursor.Err != nil {
		return cursor.Err.Error()
	}
	return fmt.Sprint(len(lines))
}
