/** `tandem compare`: prints the differences of runs. */
import { ownValue, shortNumber, textTable, visibleLine } from '@tandem-rl/base'
import { print } from '@tandem-rl/base/host'
import { Command, CommandError } from 'tandem-rl/command'
import type { CompareAnswer, RunsAnswer } from '../protocol.js'
import { viewer } from './viewer.js'

interface CompareFlags {
  readonly names?: string
  readonly json?: true
}

/** The most runs of one comparison. */
const MOST = 8

/** Makes the rows of both tables: settings that differ, and the newest value of each metric. */
const linesOf = ({ runs, settings, metrics }: CompareAnswer): readonly string[] => {
  const names = runs.map(({ name }) => visibleLine(name))
  const different = settings.map(({ path, values }) =>
    [path, ...values.map((value) => JSON.stringify(value))].map(visibleLine),
  )
  const shown = [...new Set(metrics.flatMap(({ columns }) => Object.keys(columns)))]
  const newest = shown.map((name) => [
    visibleLine(name),
    ...metrics.map(({ columns }) => shortNumber(ownValue(columns, name)?.findLast((value) => value !== null))),
  ])
  return [...textTable([['setting', ...names], ...different]), '', ...textTable([['metric', ...names], ...newest])]
}

const compare = async (folders: readonly string[], { names, json }: CompareFlags): Promise<void> => {
  const get = viewer(folders)
  const { runs } = (await get('/api/runs')) as RunsAnswer // the answer of this path
  if (runs.length < 2 || runs.length > MOST)
    throw new CommandError(`compare needs 2 to ${MOST} runs, got ${runs.length} in ${folders.join(', ')}`)
  const query = new URLSearchParams({ runs: runs.map(({ id }) => id).join(','), ...(names && { names }) })
  const answer = (await get(`/api/compare?${query}`)) as CompareAnswer // the answer of this path
  print(json === true ? `${JSON.stringify(answer)}\n` : `${linesOf(answer).join('\n')}\n`)
}

/** Makes the command. */
export const compareCommand = (): Command =>
  new Command('compare')
    .argument('<folders...>', 'run folders, or folders that hold some')
    .option('--names <names>', 'metrics to show, separated by commas (default: all)')
    .option('--json', 'print the comparison as JSON')
    .action(compare)
