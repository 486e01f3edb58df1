/**
 * Runs a program of a folder by its name: `npm run make -- NAME`, `npm run bench -- NAME` and `npm
 * run verify -- NAME`, with the program's own arguments after the name. Without a name, it lists
 * the programs of the folder. Python programs run with the Python of `PEERS_VENV`, if it is set.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { programsOf } from './kit/programs.js'

const [folder = '', name, ...args] = process.argv.slice(2)
const programs = programsOf(folder)
const program = programs.find((each) => each.name === name)

if (program === undefined) {
  const width = Math.max(...programs.map((each) => each.name.length))
  const list = programs.map((each) => `  ${each.name.padEnd(width)}  ${each.summary}\n`).join('')
  const start = name === undefined ? '' : `${folder} has no program ${name}\n`
  const output = name === undefined ? process.stdout : process.stderr
  output.write(`${start}NAME is one of\n${list}`)
  if (name !== undefined) process.exitCode = 1
} else if (program.path.endsWith('.py')) {
  const { PEERS_VENV } = process.env
  const python = PEERS_VENV === undefined ? 'python3' : join(PEERS_VENV, 'bin/python')
  const { status, error } = spawnSync(python, [program.path, ...args], { stdio: 'inherit' })
  if (error !== undefined) throw error
  process.exitCode = status ?? 1
} else {
  // Benchmarks run the compiled package: see bench/built.mjs.
  if (folder === 'bench') execFileSync('npm', ['run', '--silent', 'build'], { stdio: 'inherit' })
  const path = resolve(program.path)
  process.argv.splice(1, process.argv.length, path, ...args)
  await import(pathToFileURL(path).href)
}
