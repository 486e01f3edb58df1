/**
 * MLGym's command protocol: a task in a container with a shell, in which commands are run,
 * solutions evaluated and submitted.
 */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/**
 * `infrastructure`: the container or what stands before it failed. `unexpected`: a recorded session
 * has no answer to this.
 */
export interface MLGymFailure {
  readonly _tag: 'MLGymFailure'
  readonly kind: 'infrastructure' | 'unexpected'
  readonly reason: string
}

/**
 * What an evaluation script printed: numbers by their names. One that is no finite number is null.
 */
export type MLGymMetrics = Readonly<Record<string, number | null>>

/** What the shell says of itself between two commands. */
export interface MLGymShell {
  readonly openFile: string
  readonly workingDirectory: string
}

/** A task whose container is ready. */
export interface MLGymOpened {
  /** The task, for who is to solve it. */
  readonly description: string
  /** The commands that the shell knows besides its own. */
  readonly commandDocs: string
  /** What the task's own baseline reaches; null if it has none. */
  readonly baseline: MLGymMetrics | null
  readonly shell: MLGymShell
}

/** What a command came to, as MLGym's `step` tells it. */
export interface MLGymReply {
  readonly observation: string
  /** Submitted, given up, or used up: nothing more can be run. */
  readonly done: boolean
  readonly exitStatus: string | null
  /** Evaluations that this command led to: what MLGym measured, not what the command printed. */
  readonly scores: readonly MLGymMetrics[]
  readonly shell: MLGymShell
}

/** A container of its own. */
export interface MLGymSession {
  readonly opened: MLGymOpened
  readonly step: (command: string) => TaskEither<MLGymFailure, MLGymReply>
  /** Ends the container; never rejects, and waits no longer than its own limit. */
  readonly close: () => Promise<void>
}

export interface MLGymRequest {
  readonly task: string
  readonly maxSteps: number
  readonly seed: number
}

/** Where sessions come from. */
export interface MLGym {
  readonly open: (request: MLGymRequest) => TaskEither<MLGymFailure, MLGymSession>
}

export const mlgymFailure = (kind: MLGymFailure['kind'], reason: string): MLGymFailure => ({
  _tag: 'MLGymFailure',
  kind,
  reason,
})

/** A session as it went: the request, and each command with its answer. JSON. */
export interface MLGymRecording {
  readonly request: MLGymRequest
  readonly opened: MLGymOpened
  readonly exchanges: readonly { readonly command: string; readonly reply: MLGymReply }[]
}

const both = (what: string, expected: unknown, got: unknown): E.Either<MLGymFailure, never> =>
  E.left(
    mlgymFailure(
      'unexpected',
      `the recording has ${what} ${JSON.stringify(expected)}, and is asked for ${JSON.stringify(got)}`,
    ),
  )

/**
 * MLGym as it was recorded: every session answers as the recording of its task did, command by
 * command.
 *
 * Errors   `open` and `step` give `Left(MLGymFailure)` of kind `unexpected`, with what was recorded
 *          and what was asked, for another task or command, and after the last one.
 *
 * @example
 * recordedMLGym([]).open.length // 1
 */
export const recordedMLGym = (recordings: readonly MLGymRecording[]): MLGym => ({
  open: (request) => async () => {
    const recording = recordings.find((each) => each.request.task === request.task)
    if (recording === undefined)
      return both(
        'the tasks',
        recordings.map((each) => each.request.task),
        request.task,
      )
    if (recording.request.maxSteps !== request.maxSteps) {
      return both('maxSteps', recording.request.maxSteps, request.maxSteps)
    }
    let place = 0
    return E.right({
      opened: recording.opened,
      step: (command) => async () => {
        const exchange = recording.exchanges[place]
        if (exchange === undefined) return both('an end and not', null, command)
        if (exchange.command !== command) return both(`at place ${place} the command`, exchange.command, command)
        place++
        return E.right(exchange.reply)
      },
      close: async () => {},
    })
  },
})
