// What a program does with spark-connect-go; prints a JSON object: step by step, its answer.
// Arguments: an address `sc://HOST:PORT/;token=…`, a database to read and one to write. With a token it speaks TLS;
// the environment's SSL_CERT_FILE names the certificate that it trusts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/apache/spark-connect-go/spark/sparkerrors"
	"github.com/apache/spark-connect-go/spark/sql"
	"github.com/apache/spark-connect-go/spark/sql/functions"
	"github.com/apache/spark-connect-go/spark/sql/types"
	"github.com/apache/spark-connect-go/spark/sql/utils"
)

type frame struct {
	Columns []string `json:"columns"`
	Rows    []string `json:"rows"`
}

func collected(ctx context.Context, df sql.DataFrame, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	schema, err := df.Schema(ctx)
	if err != nil {
		return nil, err
	}
	given := frame{Rows: []string{}}
	for _, field := range schema.Fields {
		given.Columns = append(given.Columns, fmt.Sprintf("%s %s %v", field.Name, field.DataType.TypeName(), field.Nullable))
	}
	rows, err := df.Collect(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		given.Rows = append(given.Rows, fmt.Sprint(row.Values()))
	}
	return given, nil
}

func answer(given any, err error) any {
	if err == nil {
		return given
	}
	told := map[string]string{"error": err.Error()}
	var spark *sparkerrors.SparkError
	if errors.As(err, &spark) {
		told["state"], told["class"], told["code"] = spark.SqlState, spark.ErrorClass, spark.Code.String()
	}
	return told
}

func main() {
	ctx := context.Background()
	address, shop, scratch := os.Args[1], os.Args[2], os.Args[3]
	spark, err := sql.NewSessionBuilder().Remote(address).Build(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ask := func(text string) func() (any, error) {
		return func() (any, error) {
			df, err := spark.Sql(ctx, text)
			return collected(ctx, df, err)
		}
	}
	table := func(name string, work func(sql.DataFrame) (sql.DataFrame, error)) func() (any, error) {
		return func() (any, error) {
			df, err := spark.Table(name)
			if err == nil {
				df, err = work(df)
			}
			return collected(ctx, df, err)
		}
	}
	customer := shop + ".customer"
	steps := []struct {
		name string
		work func() (any, error)
	}{
		{"version", ask("SELECT 1 AS one")},
		{"customers by SQL", ask("SELECT id, name, email, region, spent FROM " + customer + " ORDER BY id")},
		{"types", ask("SELECT * FROM " + shop + ".every_type ORDER BY number")},
		{"customers", table(customer, func(df sql.DataFrame) (sql.DataFrame, error) {
			return df.OrderBy(ctx, functions.Col("id").Asc())
		})},
		{"filtered", table(customer, func(df sql.DataFrame) (sql.DataFrame, error) {
			df, err := df.FilterByString(ctx, "region = 'EMEA'")
			if err != nil {
				return nil, err
			}
			df, err = df.Filter(ctx, functions.Col("id").Gt(functions.Int32Lit(1)))
			if err != nil {
				return nil, err
			}
			df, err = df.Select(ctx, functions.Col("id"), functions.Upper(functions.Col("email")).Alias("email"))
			if err != nil {
				return nil, err
			}
			return df.Sort(ctx, functions.Col("id").Desc())
		})},
		{"grouped", table(customer, func(df sql.DataFrame) (sql.DataFrame, error) {
			df, err := df.GroupBy(functions.Col("region")).Agg(ctx, functions.Count(functions.Col("id")).Alias("n"))
			if err != nil {
				return nil, err
			}
			return df.Sort(ctx, functions.Col("region").Asc())
		})},
		{"joined", table(customer, func(df sql.DataFrame) (sql.DataFrame, error) {
			other, err := spark.Table(shop + ".region")
			if err != nil {
				return nil, err
			}
			both, err := df.Join(ctx, other, functions.Expr("region = code"), utils.JoinTypeInner)
			if err != nil {
				return nil, err
			}
			both, err = both.Select(ctx, functions.Col("id"), functions.Col("title"))
			if err != nil {
				return nil, err
			}
			return both.OrderBy(ctx, functions.Col("id").Asc())
		})},
		{"described", table(customer, func(df sql.DataFrame) (sql.DataFrame, error) {
			return df.Describe(ctx, "id", "spent"), nil
		})},
		{"many rows", table(shop+".numbers", func(df sql.DataFrame) (sql.DataFrame, error) {
			return df.OrderBy(ctx, functions.Col("id").Asc())
		})},
		{"count", func() (any, error) {
			df, err := spark.Table(shop + ".numbers")
			if err != nil {
				return nil, err
			}
			return df.Count(ctx)
		}},
		{"explained", func() (any, error) {
			df, err := spark.Sql(ctx, "SELECT 1 AS one")
			if err != nil {
				return nil, err
			}
			return df.Explain(ctx, utils.ExplainModeSimple)
		}},
		{"local rows", func() (any, error) {
			schema := types.StructOf(types.NewStructField("a", types.INTEGER), types.NewStructField("b", types.STRING))
			df, err := spark.CreateDataFrame(ctx, [][]any{{1, "x"}, {2, nil}}, schema)
			return collected(ctx, df, err)
		}},
		{"a view", func() (any, error) {
			df, err := spark.Table(customer)
			if err != nil {
				return nil, err
			}
			if err = df.CreateOrReplaceTempView(ctx, "mine"); err != nil {
				return nil, err
			}
			return ask("SELECT count(*) AS n FROM mine")()
		}},
		{"a table is made", ask("CREATE TABLE " + scratch + ".made AS SELECT id, email FROM " + customer)},
		{"a table is read", ask("SELECT * FROM " + scratch + ".made ORDER BY id")},
		{"rows are inserted", ask("INSERT INTO " + scratch + ".made VALUES (100, 'a'), (101, NULL)")},
		{"rows are counted", ask("SELECT count(*) AS n FROM " + scratch + ".made")},
		{"a table is dropped", ask("DROP TABLE " + scratch + ".made")},
		{"tables", ask("SHOW TABLES IN " + shop)},
		{"a setting", func() (any, error) {
			if err := spark.Config().Set(ctx, "spark.sql.session.timeZone", "Europe/Berlin"); err != nil {
				return nil, err
			}
			return spark.Config().Get(ctx, "spark.sql.session.timeZone")
		}},
		{"no such setting", func() (any, error) { return spark.Config().Get(ctx, "spark.sql.no.such") }},
		{"no such table", ask("SELECT * FROM " + shop + ".nothing")},
		{"no such column", table(customer, func(df sql.DataFrame) (sql.DataFrame, error) {
			return df.Select(ctx, functions.Col("nothing"))
		})},
		{"no SQL", ask("SELEKT 1")},
		{"a value that fails", ask("SELECT 1 / (id - id) FROM " + customer)},
		{"files by path", func() (any, error) {
			df, err := spark.Read().Format("parquet").Load("/tmp/nothing-" + strings.ToLower(shop))
			return collected(ctx, df, err)
		}},
	}
	answers := map[string]any{}
	for _, step := range steps {
		answers[step.name] = answer(step.work())
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}
