// graphile-worker as its performance page has it: 24 jobs at a time, a local
// queue of 500, completions batched without delay; two processes.
import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { run, runMigrations, makeWorkerUtils, Logger } from "graphile-worker";
import pg from "pg";
import { begin, end, sleep } from "./drain.mjs";

const [dsn, n, role] = process.argv.slice(2);
const jobs = Number(n);
const worker = { connectionString: dsn, concurrentJobs: 24, maxPoolSize: 25, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0,
  pollInterval: 2000, logger: new Logger(() => () => {}) };

if (role === "child") {
  process.on("disconnect", () => process.exit(0)); // nobody is left to say stop
  process.on("message", async (m) => {
    if (m === "stop") process.exit(0);
    await run({ preset: { worker }, noHandleSignals: true, taskList: { benchmark: () => {} } });
  });
  process.send("up");
} else {
  await runMigrations({ preset: { worker } });
  const pool = new pg.Pool({ connectionString: dsn, max: 5 });
  const utils = await makeWorkerUtils({ preset: { worker }, pgPool: pool });
  const t = performance.now();
  for (let i = 0; i < jobs; i += 10000)
    await utils.addJobs(Array.from({ length: Math.min(10000, jobs - i) }, (_, k) => ({ identifier: "benchmark", payload: { num: i + k } })));
  const load = (jobs * 1000) / (performance.now() - t);
  await pool.query("VACUUM ANALYZE graphile_worker._private_jobs");
  await pool.query("CHECKPOINT");
  // Not the input: the lines on it are for this process.
  const children = [0, 1].map(() => fork(process.argv[1], [dsn, n, "child"], { stdio: ["ignore", "inherit", "inherit", "ipc"] }));
  await Promise.all(children.map((c) => new Promise((r) => c.once("message", r))));
  await begin(load, JSON.parse(readFileSync(new URL("./node_modules/graphile-worker/package.json", import.meta.url))).version, [process.pid, ...children.map((c) => c.pid)]);
  for (const c of children) c.send("go");
  while ((await pool.query("SELECT 1 FROM graphile_worker._private_jobs LIMIT 1")).rowCount) await sleep(5);
  await end();
  // An exit would lose the messages, and the children hold the output open.
  const gone = children.map((c) => new Promise((r) => c.once("exit", r)));
  for (const c of children) c.send("stop");
  await Promise.all(gone);
  process.exit(0);
}
