/** `tandem train --resume RUN --replay BATCH`: one step again, and what differs. */
import { resolve } from 'node:path'
import { prepareReplay } from '../run/prepare.js'
import { type Difference, type ReplayEvent, replay } from '../run/replay.js'
import { asCommandError, CommandError, orFail } from './failure.js'

/** What is asked for. */
interface ReplayFlags {
  /** The run folder. */
  readonly resume: string
  /** A step, or the folder of a batch. */
  readonly replay: string
  readonly json?: boolean
  readonly memory?: 'check' | 'ignore'
}

const lines = (differences: readonly Difference[]): string =>
  differences.map(({ what, was, is }) => `  ${what} was ${was} and is ${is}\n`).join('')

const replayed = (event: Extract<ReplayEvent, { readonly type: 'replayed' }>): string => {
  const { step, end, updates, compared, differences } = event
  if (differences.length > 0) return `step ${step} differs:\n${lines(differences)}`
  if (compared.length === 0) return `step ${step} is done; the run says nothing of it that could be compared\n`
  const measured = updates.map(({ loss, gradNorm }) => `loss ${loss}, gradient norm ${gradNorm}`).join('; ')
  return `step ${step} is the same, bit for bit: ${end ?? measured} (${compared.join(', ')})\n`
}

const textOf = (event: ReplayEvent): string => {
  if (event.type === 'replayed') return replayed(event)
  const { step, differences } = event
  return differences.length === 0
    ? `step ${step} on the way is the same\n`
    : `step ${step} on the way differs:\n${lines(differences)}`
}

/** Does a step again and says what differs, which is a failure of the command. The run is not changed. */
export const replayStep = async (flags: ReplayFlags, say: (text: string) => void): Promise<void> => {
  const prepared = await orFail(
    prepareReplay({ folder: resolve(flags.resume), batch: flags.replay }, { memory: flags.memory ?? 'check' }),
  )
  const { step, from, checkpointStep } = prepared
  const batch = from === null ? 'its batch sampled again' : `the batch in ${from}`
  say(`step ${step} again, from the checkpoint after ${checkpointStep} steps, with ${batch}\n`)
  let count = 0
  try {
    for await (const event of replay(prepared)) {
      count += event.differences.length
      process.stdout.write(flags.json === true ? `${JSON.stringify(event)}\n` : textOf(event))
    }
  } catch (error) {
    throw asCommandError(error)
  }
  if (count > 0) throw new CommandError(`the step is not what it was: ${count} differences`)
}
