/**
 * `docs/parity.md` is true: its names are public, its tests exist, and it has every name of
 * TorchRL.
 */
import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { workerCommand } from '../../packages/cluster/src/commands/worker.js'
import { serveCommand } from '../../packages/serve/src/commands/serve.js'
import { mergeCommand } from '../../src/cli/merge.js'
import { replayCommand } from '../../src/cli/replay.js'
import { trainCommand } from '../../src/cli/train.js'
import {
  missingNames,
  nameProblems,
  type ParityRow,
  parityRows,
  quoted,
  readIfThere,
  rowProblems,
  testProblems,
} from '../kit/parityPage.js'
import { publicNames } from '../kit/publicNames.js'

const PAGE = readFileSync('docs/parity.md', 'utf8')
const rows = parityRows(PAGE)
const api = publicNames()

const golden: { readonly names: Readonly<Record<string, readonly string[]>> } = JSON.parse(
  readFileSync('test/golden/torchrlNames.json', 'utf8'),
)
const torchrl = Object.values(golden.names).flat()

const commands = new Map<string, Command>(
  [
    await trainCommand([]),
    await workerCommand([]),
    replayCommand(),
    mergeCommand(),
    serveCommand(() => {
      throw new Error('no engine is started here')
    }),
  ].map((command) => [command.name(), command]),
)

/** Returns why a command line names no command or flag, or `undefined`. */
const commandProblem = (line: string): string | undefined => {
  const [, name = '', ...flags] = line.split(' ')
  const command = commands.get(name)
  if (command === undefined) return `there is no command '${name}' among ${[...commands.keys()].join(', ')}`
  const unknown = flags.filter((flag) => !command.options.some(({ long }) => long === flag))
  return unknown.length > 0 ? `tandem ${name} has no ${unknown.join(', ')}` : undefined
}

const problem = (name: string): string | undefined =>
  name.startsWith('tandem ') ? commandProblem(name) : api.problem(name)

const ROW: ParityRow = { torchrl: '`A`', here: 'none', difference: '', tests: '', line: 1 }
const row = (over: Partial<ParityRow>): ParityRow => ({ ...ROW, ...over })

describe('docs/parity.md', () => {
  it('names only what is public: exports, members, options, entries and flags', () => {
    expect(nameProblems(rows, problem)).toEqual([])
  })

  it('names tests that exist and mention a name of their row', () => {
    expect(testProblems(rows, readIfThere)).toEqual([])
  })

  it('has no row twice', () => {
    expect(rowProblems(rows)).toEqual([])
  })

  it('has a row for every name of TorchRL', () => {
    expect(missingNames(rows, torchrl)).toEqual([])
  })

  it('gives a reason for every row without a counterpart', () => {
    expect(rows.filter(({ here, difference }) => quoted(here).length === 0 && difference === '')).toEqual([])
  })
})

describe('the check of docs/parity.md', () => {
  it.each([
    ['SFTLosses', "'SFTLosses' is not exported"],
    ['GRPOLoss({ clipEps })', "there is no option 'clipEps'"],
    ["GRPOLoss({ aggregation: 'none' })", "'aggregation' does not take 'none'"],
    ['LLMCollector({ batches: { turns } })', "there is no option 'turns'"],
    ['TransformersPolicy.acts', "'TransformersPolicy' has no 'acts'"],
    ['tokens.prompts', 'no exported type has such an entry'],
    ['tandem train --optimiser', 'tandem train has no --optimiser'],
    ['tandem trains', "there is no command 'trains'"],
  ])('refuses %s', (name, reason) => {
    expect(nameProblems([row({ here: `\`${name}\`` })], problem)).toEqual([expect.stringContaining(reason)])
  })

  it.each([
    'SFTLoss',
    'GRPOLoss({ clipEpsilon })',
    'TransformersPolicy.act',
    'tokens.full',
    'tandem train --optimizer',
  ])('takes %s', (name) => {
    expect(nameProblems([row({ here: `\`${name}\`` })], problem)).toEqual([])
  })

  it('refuses a test that does not exist, one that mentions no name, and names without a test', () => {
    const tested = (tests: string) => row({ here: '`GRPOLoss({ clipEpsilon })`', tests })
    const read = (path: string) => (path === 'there.ts' ? 'const loss = SFTLoss()' : undefined)
    expect(testProblems([tested('`gone.ts`'), tested('`there.ts`'), tested('')], read)).toEqual([
      'line 1 (`A`): there is no test gone.ts',
      'line 1 (`A`): there.ts mentions none of GRPOLoss, clipEpsilon',
      'line 1 (`A`): names no test',
    ])
    expect(testProblems([tested('`there.ts`')], () => 'GRPOLoss')).toEqual([])
  })

  it('refuses a name of TorchRL in two rows, and misses one in none', () => {
    const twice = [row({}), row({ torchrl: '`A(x=1)`' }), row({ torchrl: '`B`, `A`', line: 2 })]
    expect(rowProblems(twice)).toEqual(['two rows have A'])
    expect(missingNames(twice, ['A', 'B', 'x', 'C'])).toEqual(['C'])
  })

  it('refuses a line with another number of cells', () => {
    expect(() => parityRows('| `a` | `b` |')).toThrow('line 1 has 2 cells instead of 4')
  })
})
