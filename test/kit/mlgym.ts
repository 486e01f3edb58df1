/**
 * A container of MLGym in memory: it remembers the commands that were run in it, and evaluates by
 * their number.
 */
import { readFileSync } from 'node:fs'
import type { MLGym, MLGymRecording, MLGymReply } from '@tandem-rl/tools'
import * as E from 'fp-ts/lib/Either.js'
import { mlgymFailure } from '../../packages/tools/src/mlgym/session.js'

export const RECORDING = JSON.parse(readFileSync('test/golden/mlgym/prisonersDilemma.json', 'utf8')) as MLGymRecording // as its note says

const SHELL = { openFile: 'n/a', workingDirectory: '/work' }

export interface CountingMLGym extends MLGym {
  /** Sessions that were opened, and those of them that are alive; commands that were run. */
  readonly counts: () => { readonly opened: number; readonly alive: number; readonly run: number }
}

/**
 * `crash` breaks the container; `validate` gives as many points as commands were run before;
 * `submit` too, and ends.
 */
export const countingMLGym = (): CountingMLGym => {
  const counts = { opened: 0, alive: 0, run: 0 }
  return {
    counts: () => ({ ...counts }),
    open:
      ({ task }) =>
      async () => {
        counts.opened++
        counts.alive++
        let isOpen = true
        const done: string[] = []
        return E.right({
          opened: { description: `Solve ${task}.`, commandDocs: 'submit', baseline: { Score: 1 }, shell: SHELL },
          step: (command: string) => async () => {
            counts.run++
            if (!isOpen || command === 'crash') return E.left(mlgymFailure('infrastructure', 'the container is gone'))
            const isEvaluated = ['validate', 'submit', 'exit_format'].includes(command)
            const reply: MLGymReply = {
              observation: `${done.join(' ')}$ ${command}`,
              done: command === 'submit' || command === 'exit_format',
              exitStatus: command === 'submit' ? 'submitted' : null,
              scores: isEvaluated ? [{ Score: done.length }] : [],
              shell: SHELL,
            }
            done.push(command)
            return E.right(reply)
          },
          close: async () => {
            if (isOpen) counts.alive--
            isOpen = false
          },
        })
      },
  }
}
