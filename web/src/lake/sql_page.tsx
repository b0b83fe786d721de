// Questions to the lake: named ones, and any in SQL.

import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api.ts";
import { focusOn, useKeys } from "../keys.ts";
import { Problem, Waiting } from "../parts/basics.tsx";
import { useLoad } from "../parts/load.ts";
import { adjust, route } from "../store.ts";
import type { NamedQuery, QueryResult } from "../wire.ts";
import { Result } from "./result.tsx";
import { SqlEditor, type Tables } from "./sql_editor.tsx";

const ROWS_MAX = 1000;
const NO_TABLES: Tables = {};
const FIRST = `SELECT benchmark_uri, cost, best_cost, steps
FROM best_sequences('IrInstructionCount')
ORDER BY best_cost * 1.0 / cost`;
const TABLES = `SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema <> 'information_schema' ORDER BY table_name, ordinal_position`;

/** Names to complete. Without them one can ask all the same. */
async function loadTables(signal: AbortSignal): Promise<Tables> {
  const { rows } = await api.query(TABLES, 10_000, signal);
  const tables: Tables = {};
  for (const [table, column] of rows) (tables[String(table)] ??= []).push(String(column));
  return tables;
}

interface Answer {
  /** What was asked: see `placeOf`. */
  of: string;
  result: QueryResult | null;
  error: unknown;
  isRunning: boolean;
}

const NO_ANSWER: Answer = { of: "", result: null, error: null, isRunning: false };

/** Tells the questions that addresses name apart. */
const placeOf = (name: string | undefined, q: string | undefined): string => JSON.stringify([name ?? "", q ?? ""]);

export function SqlPage() {
  const { params } = route.value;
  const place = placeOf(params["query"], params["q"]);
  const queries = useLoad((cancel) => api.queries(cancel), []);
  const tables = useLoad(loadTables, []);
  const [text, setText] = useState(params["q"] ?? FIRST);
  // An editor begins with its text, and then goes by what is typed.
  const [textsFromElsewhere, setTextsFromElsewhere] = useState(0);
  const [kept, setAnswer] = useState<Answer>(NO_ANSWER);
  // The answer to another question than that of the address is not shown.
  const answer = kept.of === place ? kept : NO_ANSWER;
  const running = useRef<AbortController | null>(null);
  const asked = useRef("");
  const named = queries.value?.find((query) => query.name === params["query"]) ?? null;

  const ask = (get: (signal: AbortSignal) => Promise<QueryResult>, of = place) => {
    running.current?.abort();
    asked.current = of;
    const cancel = new AbortController();
    running.current = cancel;
    setAnswer({ of, result: null, error: null, isRunning: true });
    const done = (result: QueryResult | null, error: unknown) => {
      if (!cancel.signal.aborted) setAnswer({ of, result, error, isRunning: false });
    };
    get(cancel.signal).then((result) => done(result, null), (error: unknown) => done(null, error));
  };
  const stop = () => {
    running.current?.abort();
    setAnswer(NO_ANSWER);
  };
  const askSql = (sql: string) => ask((cancel) => api.query(sql, ROWS_MAX, cancel), placeOf(undefined, sql));
  const run = () => {
    askSql(text);
    adjust({ q: text, query: undefined });
  };
  // An address that carries a question asks it, unless it was asked here and so came into the address.
  useEffect(() => {
    if (asked.current === place) return;
    running.current?.abort();
    asked.current = place;
    const sql = params["q"];
    if (!sql || params["query"]) return;
    if (sql !== text) {
      setText(sql);
      setTextsFromElsewhere((count) => count + 1);
    }
    askSql(sql);
  }, [place]);
  useEffect(() => () => running.current?.abort(), []);
  useKeys({ "/": () => focusOn(".query-choice") });
  return (
    <div class="sql-page">
      <section class="panel question" aria-label="Question">
        <div class="bar">
          <QueryChoice queries={queries.value ?? []} value={named?.name ?? ""}
            onChange={(name) => adjust({ query: name || undefined, q: undefined })} />
          {named && <span class="dim">{named.title}</span>}
          <span class="grow" />
          {answer.isRunning && <button type="button" onClick={stop}>Stop</button>}
          {!named && (
            <button type="button" class="primary" onClick={run} disabled={answer.isRunning} title="Ctrl Enter">Run</button>
          )}
        </div>
        <Problem error={queries.error} retry={queries.reload} />
        {named ? (
          <NamedForm key={named.name} query={named} isRunning={answer.isRunning}
            onRun={(values) => ask((cancel) => api.namedQuery(named.name, values, ROWS_MAX, cancel))}
            onEdit={(sql) => {
              setText(sql);
              // The answer stays: it is that to this text.
              asked.current = placeOf(undefined, sql);
              setAnswer({ ...answer, of: asked.current });
              adjust({ query: undefined, q: sql });
            }}
            edited={answer.result?.sql} />
        ) : (
          <SqlEditor key={textsFromElsewhere} text={text} tables={tables.value ?? NO_TABLES} onChange={setText}
            onRun={run} />
        )}
      </section>
      {answer.isRunning && <Waiting what="Asking the lake" />}
      <Problem error={answer.error} />
      {answer.result && <Result key={answer.result.seconds} result={answer.result} />}
      {!answer.result && !answer.error && !answer.isRunning && (
        <p class="nothing">
          Run the question with Ctrl Enter, or choose a named one. <code>SHOW TABLES</code> lists the tables.
        </p>
      )}
    </div>
  );
}

function QueryChoice({ queries, value, onChange }: {
  queries: readonly NamedQuery[];
  value: string;
  onChange: (name: string) => void;
}) {
  const topics = [...new Set(queries.map((query) => query.topic))].sort();
  return (
    <label class="labelled">
      Question
      <select class="query-choice" value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">in SQL</option>
        {topics.map((topic) => (
          <optgroup key={topic} label={topic}>
            {queries.filter((query) => query.topic === topic).map((query) => (
              <option key={query.name} value={query.name}>{query.name}</option>
            ))}
          </optgroup>
        ))}
      </select>
    </label>
  );
}

function NamedForm({ query, isRunning, onRun, onEdit, edited }: {
  query: NamedQuery;
  isRunning: boolean;
  onRun: (values: Record<string, string>) => void;
  onEdit: (sql: string) => void;
  edited: string | undefined;
}) {
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries(query.parameters.map((parameter) => [parameter.name, parameter.default ?? ""])));
  const missing = query.parameters.filter((parameter) => values[parameter.name]?.trim() === "");
  const given = () => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value.trim()]));
  // Without anything to fill in, choosing a question asks it.
  useEffect(() => {
    if (missing.length === 0 && !query.needs) onRun(given());
  }, []);
  return (
    <form class="named" onSubmit={(event) => {
      event.preventDefault();
      if (missing.length === 0) onRun(given());
    }}>
      <div class="parameters">
        {query.parameters.map((parameter) => (
          <label key={parameter.name} class="labelled" title={parameter.description}>
            {parameter.name}
            <input type="text" value={values[parameter.name]} placeholder={parameter.kind} spellcheck={false}
              onInput={(event) => setValues({ ...values, [parameter.name]: event.currentTarget.value })} />
            <span class="dim">{parameter.description}</span>
          </label>
        ))}
        {query.needs && <p class="dim">Needs a lake that records {query.needs}.</p>}
      </div>
      <pre tabIndex={0} aria-label="SQL of the question">{query.sql.trim()}</pre>
      <div class="bar foot">
        {missing.length > 0 && <span class="dim">Give {missing.map((parameter) => parameter.name).join(", ")}.</span>}
        <span class="grow" />
        {edited && <button type="button" onClick={() => onEdit(edited)}>Edit as SQL</button>}
        <button type="submit" class="primary" disabled={isRunning || missing.length > 0}>Run</button>
      </div>
    </form>
  );
}
