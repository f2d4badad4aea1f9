// pg-boss by its own fetch and complete, 5,000 jobs at a time in two loops: the
// most its API allows, without its polling worker.
import { readFileSync } from "node:fs";
import { PgBoss } from "pg-boss";
import { begin, end } from "./drain.mjs";

const [dsn, n] = process.argv.slice(2);
const jobs = Number(n);
const boss = new PgBoss({ connectionString: dsn, max: 10, schedule: false, supervise: false });
boss.on("error", (e) => console.error(e));
await boss.start();
await boss.createQueue("benchmark");
const t = performance.now();
for (let i = 0; i < jobs; i += 10000)
  await boss.insert("benchmark", Array.from({ length: Math.min(10000, jobs - i) }, (_, k) => ({ data: { num: i + k } })));
const load = (jobs * 1000) / (performance.now() - t);
await boss.getDb().executeSql("VACUUM ANALYZE", []);
await boss.getDb().executeSql("CHECKPOINT", []);
const version = JSON.parse(readFileSync(new URL("./node_modules/pg-boss/package.json", import.meta.url))).version;
await begin(load, version, [process.pid]);
let done = 0;
await Promise.all([0, 1].map(async () => {
  for (;;) {
    const got = await boss.fetch("benchmark", { batchSize: 5000 });
    if (!got || !got.length) return;
    await boss.complete("benchmark", got.map((j) => j.id));
    done += got.length;
  }
}));
if (done !== jobs) throw new Error(`${done} of ${jobs} jobs were done`);
await end();
process.exit(0);
