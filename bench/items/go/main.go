// /api/items as one would write it with net/http and pgx, which prepares each statement once for each connection.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

type item struct {
	ID    int32 `json:"id"`
	Value bool  `json:"value"`
}

func main() {
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	connections, err := strconv.Atoi(os.Getenv("CONNECTIONS"))
	if err != nil {
		log.Fatal(err)
	}
	config.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	one := func(w http.ResponseWriter, r *http.Request, status int, sql string, values ...any) {
		var found item
		err := pool.QueryRow(r.Context(), sql, values...).Scan(&found.ID, &found.Value)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			w.WriteHeader(http.StatusNotFound)
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			if status == http.StatusCreated {
				w.Header().Set("Location", fmt.Sprintf("/api/items/%d", found.ID))
			}
			answer(w, status, found)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/items", func(w http.ResponseWriter, r *http.Request) {
		if sent, ok := body(w, r); ok {
			one(w, r, http.StatusCreated, "insert into items (value) values ($1) returning id, value", sent.Value)
		}
	})
	mux.HandleFunc("GET /api/items", func(w http.ResponseWriter, r *http.Request) {
		rows, err := pool.Query(r.Context(), "select id, value from items order by id limit 20")
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[item])
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		answer(w, http.StatusOK, found)
	})
	mux.HandleFunc("GET /api/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		if id, ok := number(w, r); ok {
			one(w, r, http.StatusOK, "select id, value from items where id = $1", id)
		}
	})
	mux.HandleFunc("PUT /api/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, ok := number(w, r)
		if !ok {
			return
		}
		if sent, ok := body(w, r); ok {
			one(w, r, http.StatusOK, "update items set value = $2 where id = $1 returning id, value", id, sent.Value)
		}
	})
	mux.HandleFunc("DELETE /api/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		if id, ok := number(w, r); ok {
			one(w, r, http.StatusOK, "delete from items where id = $1 returning id, value", id)
		}
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), mux))
}

func number(w http.ResponseWriter, r *http.Request) (int32, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 32)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
	return int32(id), err == nil
}

func body(w http.ResponseWriter, r *http.Request) (item, bool) {
	var sent item
	err := json.NewDecoder(r.Body).Decode(&sent)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
	return sent, err == nil
}

func answer(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
