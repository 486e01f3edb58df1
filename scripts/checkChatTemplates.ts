/**
 * Compares our rendering of public chat templates with that of Transformers: `npm run check:chat-templates -- FOLDER...`, where the folders
 * hold `.jinja` files, such as those of an installed `trl`. The Python of the environment PEERS_VENV renders the other side.
 *
 * Prints a line for each template and the counts. Exits with 1 if a difference is not among the known ones.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Case, compareCase, type Outcome, type Reference } from '../test/kit/chatTemplates.js'

const CONVERSATIONS = 'test/golden/chatTemplates/conversations.json'
const KNOWN = 'test/golden/chatTemplates/knownDifferences.json'

/** A difference that is expected, and why. */
interface Known {
  /** Regular expression over `TEMPLATE / CONVERSATION`. */
  readonly where: string
  readonly kind: Outcome['kind']
  readonly reason: string
}

const read = <T>(path: string): T => JSON.parse(readFileSync(path, 'utf8')) as T // files of this repository

const python = `${process.env.PEERS_VENV ?? '/work/peers-venv'}/bin/python`
const cases = read<readonly Case[]>(CONVERSATIONS)
const known = read<readonly Known[]>(KNOWN)

const referenceOf = (folder: string): Reference =>
  JSON.parse(
    execFileSync(python, ['test/golden/generate/chatTemplates.py', CONVERSATIONS, folder], {
      encoding: 'utf8',
      maxBuffer: 1 << 28,
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  ) as Reference // written by the generator

const folders = process.argv.slice(2)
if (folders.length === 0) {
  console.error('usage: npm run check:chat-templates -- FOLDER...')
  process.exit(2)
}

const counts: Record<string, number> = { templates: 0, masks: 0, known: 0, unknown: 0 }
const count = (name: string): void => {
  counts[name] = (counts[name] ?? 0) + 1
}

for (const folder of folders) {
  const { results } = referenceOf(folder)
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.jinja'))) {
    count('templates')
    const source = readFileSync(join(folder, file), 'utf8')
    const name = file.replace(/\.jinja$/, '')
    const outcomes = cases.map((item) => ({ item, outcome: compareCase(source, item, results[name]![item.name]!) }))
    const equal = outcomes.filter(({ outcome }) => outcome.kind === 'equal' || outcome.kind === 'both refuse').length
    console.log(`${name.padEnd(44)} ${equal} of ${cases.length}`)
    for (const { item, outcome } of outcomes) {
      count(outcome.kind)
      if (outcome.kind === 'equal' && outcome.hasMask) count('masks')
      if (!('detail' in outcome)) continue
      const place = `${name} / ${item.name}`
      const excuse = known.find(({ where, kind }) => kind === outcome.kind && new RegExp(where).test(place))
      count(excuse === undefined ? 'unknown' : 'known')
      console.log(`  ${item.name}: ${outcome.kind}: ${excuse?.reason ?? `NOT KNOWN: ${outcome.detail}`}`)
    }
  }
}
console.log(JSON.stringify(counts))
if (counts.unknown !== 0) process.exitCode = 1
