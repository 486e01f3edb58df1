/** `tandem runs`: lists runs. */
import { shortNumber, textTable, visibleLine } from '@tandem-rl/base'
import { print } from '@tandem-rl/base/host'
import { Command, CommandError } from 'tandem-rl/command'
import type { RunRow, RunsAnswer } from '../protocol.js'
import { viewer } from './viewer.js'

const HEAD = ['run', 'state', 'step', 'reward', 'accuracy', 'updated', 'tags'] as const

const cellsOf = ({ name, state, step, steps, last, updatedAt, tags }: RunRow): readonly string[] => [
  ...[visibleLine(name), state, steps === null ? String(step) : `${step}/${steps}`],
  ...[shortNumber(last.reward), shortNumber(last.accuracy)],
  ...[updatedAt?.slice(0, 16).replace('T', ' ') ?? '-', visibleLine(tags.join(', '))],
]

const list = async (folders: readonly string[], { json }: { readonly json?: true }): Promise<void> => {
  const { runs } = (await viewer(folders)('/api/runs')) as RunsAnswer // the answer of this path
  if (runs.length === 0) throw new CommandError(`there are no runs in ${folders.join(', ')}`)
  const lines = json === true ? runs.map((run) => JSON.stringify(run)) : textTable([HEAD, ...runs.map(cellsOf)])
  print(`${lines.join('\n')}\n`)
}

/** Makes the command. */
export const runsCommand = (): Command =>
  new Command('runs')
    .argument('[folders...]', 'run folders, or folders that hold some', ['runs'])
    .option('--json', 'print each run as a line of JSON')
    .action(list)
