/** `tandem replay RUN BATCH`: repeats one step of a run and prints the differences. */
import { countOf } from '@tandem-rl/base'
import { print } from '@tandem-rl/base/host'
import { Command } from 'commander'
import { runFolder } from '../run/store/store.js'
import { type ReplayEvent, replay } from '../run/train/replay.js'
import { threadsOfRun } from './calibration.js'
import { asCommandError } from './expectedErrors.js'
import { CommandError } from './failure.js'
import { type EngineOptions, engineOptions, startEngine } from './options.js'
import {
  type AcceptFlags,
  acceptOption,
  type BuildFlags,
  build,
  changesOf,
  chooseRun,
  memoryOption,
  say,
  storedSettings,
} from './plan.js'
import { type TrustFlags, trustOption } from './recipeTrust.js'

interface ReplayFlags extends EngineOptions, BuildFlags, TrustFlags, AcceptFlags {
  readonly json?: true
}

type Difference = Extract<ReplayEvent, { readonly type: 'replayed' }>['differences'][number]

const lines = (differences: readonly Difference[]): string =>
  differences.map(({ what, was, is }) => `  ${what} was ${was} and is ${is}\n`).join('')

const replayed = (event: Extract<ReplayEvent, { readonly type: 'replayed' }>): string => {
  const { step, end, updates, compared, differences } = event
  if (differences.length > 0) return `step ${step} differs:\n${lines(differences)}`
  if (compared.length === 0) return `step ${step} was repeated; the run has no record to compare it with\n`
  const measured = updates.map(({ loss, gradNorm }) => `loss ${loss}, gradient norm ${gradNorm}`).join('; ')
  return `step ${step} is bit-identical: ${end ?? measured} (${compared.join(', ')})\n`
}

const textOf = (event: ReplayEvent): string => {
  switch (event.type) {
    case 'from': {
      const batch = event.folder === null ? 'its batch sampled again' : `the batch in ${event.folder}`
      return `replaying step ${event.step} from the checkpoint after ${countOf(event.checkpointStep, 'step')}, with ${batch}\n`
    }
    case 'caught-up':
      return event.differences.length === 0
        ? `step ${event.step} before it is bit-identical\n`
        : `step ${event.step} before it differs:\n${lines(event.differences)}`
    case 'replayed':
      return replayed(event)
  }
}

const action = async (folder: string, batch: string, flags: ReplayFlags): Promise<void> => {
  const chosen = await chooseRun(folder, flags)
  const settings = storedSettings(chosen, chosen.run.config)
  await startEngine({ ...threadsOfRun(chosen, settings), ...flags })
  const run = await build(chosen, settings, flags)
  let count = 0
  try {
    for await (const event of replay(run, { store: runFolder(chosen.run.folder, changesOf(flags)), batch })) {
      if (event.type !== 'from') count += event.differences.length
      if (flags.json === true) print(`${JSON.stringify(event)}\n`)
      else if (event.type === 'from') say(textOf(event))
      else print(textOf(event))
    }
  } catch (error) {
    throw asCommandError(error)
  }
  if (count > 0) throw new CommandError(`the replay has ${count} differences from the run`)
}

export const replayCommand = (): Command => {
  const command = new Command('replay')
    .argument('<run>', 'the folder of the run')
    .argument('<batch>', 'the number of the step, or the folder of a saved batch')
    .addOption(memoryOption())
    .addOption(trustOption())
    .addOption(acceptOption())
  for (const option of engineOptions()) command.addOption(option)
  return command.option('--json', 'print every event as a line of JSON').action(action)
}
