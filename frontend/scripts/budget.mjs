// Holds the weight of the bundle: what the first page loads, and what any other route adds.
// Reads Vite's manifest, so a chunk that becomes static by accident is counted at once.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const FIRST_LOAD_KB = 300;
const ROUTE_KB = 80;
const dist = new URL('../dist/', import.meta.url).pathname;
const manifest = JSON.parse(readFileSync(join(dist, '.vite/manifest.json'), 'utf8'));

const weights = new Map();
function weight(file) {
  if (!weights.has(file)) weights.set(file, gzipSync(readFileSync(join(dist, file))).length);
  return weights.get(file);
}

/** Every script file that loading `key` brings, static imports included. */
function closure(key, files = new Set()) {
  const chunk = manifest[key];
  if (!chunk || files.has(chunk.file)) return files;
  files.add(chunk.file);
  for (const dependency of chunk.imports ?? []) closure(dependency, files);
  return files;
}

const sum = (files) => [...files].reduce((total, file) => total + weight(file), 0) / 1024;
const entry = Object.keys(manifest).find((key) => manifest[key].isEntry);
const base = closure(entry);
const routes = Object.keys(manifest)
  .filter((key) => manifest[key].isDynamicEntry)
  .map((key) => {
    const own = [...closure(key)].filter((file) => !base.has(file));
    return { name: key, kb: sum(own) };
  })
  .sort((a, b) => b.kb - a.kb);

const overview = routes.find((route) => route.name.includes('OverviewPage'));
const first = sum(base) + (overview?.kb ?? 0);
let failed = false;
function report(name, kb, limit) {
  const over = kb > limit;
  failed ||= over;
  console.log(`${over ? 'OVER' : 'ok  '} ${kb.toFixed(1).padStart(7)} kB of ${limit}  ${name}`);
}

console.log('Weight of the scripts, gzip:');
report('first load (entry and Overview)', first, FIRST_LOAD_KB);
for (const route of routes) report(route.name, route.kb, ROUTE_KB);
if (failed) {
  console.error('The bundle is over its budget: split a route or drop a dependency.');
  process.exit(1);
}
