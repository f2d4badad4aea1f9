// What the peers on Node share: they load their jobs, say "begin" with the
// processes to be measured, and "end" when no job is left.
import { createInterface } from "node:readline";

export const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
export const say = (o) => process.stdout.write(JSON.stringify(o) + "\n");

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// begin waits until the measurement has read its meters.
export async function begin(loadPerSecond, version, pids) {
  say({ at: "begin", load_per_second: loadPerSecond, version, pids });
  await lines.next();
}

export async function end() {
  say({ at: "end" });
  await lines.next();
}
