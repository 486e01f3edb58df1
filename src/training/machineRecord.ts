/** What a run's numbers depend on beside its parts, kept in its folder. */
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Files } from '../core/capabilities.js'
import type { FileFailure } from '../core/failure.js'
import { engineReport } from '../engine/report.js'
import { processorName } from '../live/machine.js'
import type { RunPaths } from './runFolder.js'

/** The machine and the engine of a session, in words. Runs are equal bit for bit where all of it is. */
type MachineRecord = Readonly<Record<string, string>>

const machineNow = (): MachineRecord => {
  const { backend, version, threads } = engineReport()
  return {
    processor: processorName(),
    platform: `${process.platform} ${process.arch}`,
    backend: `${backend} ${version}`,
    threads: String(threads ?? 'unknown'),
  }
}

const readRecord = (text: string): MachineRecord => {
  try {
    return JSON.parse(text) as MachineRecord // written below; another file differs in everything
  } catch {
    return {}
  }
}

/**
 * Writes machine.json for this session. Returns what differs from the session before, in one sentence, or null: its steps cannot be
 * expected to be repeated bit for bit.
 */
export const recordMachine = (files: Files, { machine }: RunPaths): TE.TaskEither<FileFailure, string | null> => {
  const now = machineNow()
  return pipe(
    files.exists(machine),
    TE.chain((exists) => (exists ? files.readText(machine) : TE.right(JSON.stringify(now)))),
    TE.map(readRecord),
    TE.chainFirst(() => files.write(machine, `${JSON.stringify(now, undefined, 2)}\n`)),
    TE.map((was) => {
      const different = Object.keys(now).filter((name) => was[name] !== now[name])
      return different.length === 0
        ? null
        : `the run goes on with ${different.map((name) => `${name} ${now[name]} instead of ${was[name] ?? 'unknown'}`).join(', ')}: ` +
            'its results may differ in rounding from a run that was never stopped'
    }),
  )
}
