/** Leases a program and a sandbox, and keeps another of each idle, until it is killed. */
import { orThrow, type ResourceSpec } from '@tandem-rl/base'
import { liveSandbox, processResource, resourcePool, sandboxResource } from '@tandem-rl/tools'

const mark = process.argv[2]!

/** Ignores the end of its input and polite signals, and has a child that does too. */
const STUBBORN = `
process.on('SIGTERM', () => {})
process.stdin.resume()
setInterval(() => {}, 1e6)
if (process.argv[2] === 'parent') {
  const child = require('node:child_process').spawn(process.execPath, ['-e', process.env.STUBBORN, process.argv[1], 'child'])
  child.on('spawn', () => console.log('ready'))
}
process.stdin.on('data', () => process.argv[2] === 'parent' && console.log('again'))`

const programs = processResource({
  ...{ name: 'stubborn', command: process.execPath, args: ['-e', STUBBORN, mark, 'parent'], env: { STUBBORN } },
})
const sandboxes = sandboxResource('shell', liveSandbox(), {
  ...{ command: 'sh', args: ['-c', 'touch /tmp/left; sleep 1000 & cat', mark] },
})

/** Leases one resource and leaves another idle. */
const lease = async <R>(spec: ResourceSpec<R>, use: (resource: R) => Promise<unknown>): Promise<void> => {
  const pool = resourcePool(spec)
  orThrow(await pool.warm(2, undefined)())
  const { resource } = orThrow(await pool.acquire({ args: undefined })())
  await use(resource)
}

await lease(programs, (program) => program.ask('hello', { limitMs: 60_000 }))
await lease(sandboxes, (session) => session.ask('hello\n', '\n')())
console.log('leased')
setInterval(() => {}, 1e6)
