#!/usr/bin/env node
/** The program `tandem`: checks the version of Node before it loads what an older one cannot. */
const OLDEST = 20

if (Number.parseInt(process.versions.node, 10) < OLDEST) {
  process.stderr.write(`tandem: Node ${OLDEST} or newer is required, and this is ${process.versions.node}\n`)
  process.exitCode = 1
} else await import('./main.js')
