/**
 * MLGym's command protocol: a task in a container with a shell that runs commands and evaluates and
 * submits solutions.
 */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/**
 * `infrastructure`: the container, or the program that runs it, failed. `unexpected`: a recorded
 * session has no answer for this request.
 */
export interface MLGymFailure {
  readonly _tag: 'MLGymFailure'
  readonly kind: 'infrastructure' | 'unexpected'
  readonly reason: string
}

/** The numbers that an evaluation script printed, by name. A number that is not finite is null. */
export type MLGymMetrics = Readonly<Record<string, number | null>>

/** The state that the shell reports between two commands. */
export interface MLGymShell {
  readonly openFile: string
  readonly workingDirectory: string
}

/** A task whose container is ready. */
export interface MLGymOpened {
  /** The task, for the agent. */
  readonly description: string
  /** Documentation of the commands that the shell has in addition to its own. */
  readonly commandDocs: string
  /** The result of the task's own baseline; null if it has none. */
  readonly baseline: MLGymMetrics | null
  readonly shell: MLGymShell
}

/** The result of a command, from MLGym's `step`. */
export interface MLGymReply {
  readonly observation: string
  /** True after a submission, after giving up, or when the budget is used up. */
  readonly done: boolean
  readonly exitStatus: string | null
  /** Evaluations of this command, as measured by MLGym and not as printed by the command. */
  readonly scores: readonly MLGymMetrics[]
  readonly shell: MLGymShell
}

/** A session with its own container. */
export interface MLGymSession {
  readonly opened: MLGymOpened
  readonly step: (command: string) => TaskEither<MLGymFailure, MLGymReply>
  /** Ends the container. Never rejects, and has its own time limit. */
  readonly close: () => Promise<void>
}

export interface MLGymRequest {
  readonly task: string
  readonly maxSteps: number
  readonly seed: number
}

/** A source of sessions. */
export interface MLGym {
  readonly open: (request: MLGymRequest) => TaskEither<MLGymFailure, MLGymSession>
}

export const mlgymFailure = (kind: MLGymFailure['kind'], reason: string): MLGymFailure => ({
  _tag: 'MLGymFailure',
  kind,
  reason,
})

/** A recorded session: the request, and each command with its reply. JSON. */
export interface MLGymRecording {
  readonly request: MLGymRequest
  readonly opened: MLGymOpened
  readonly exchanges: readonly { readonly command: string; readonly reply: MLGymReply }[]
}

const both = (what: string, expected: unknown, got: unknown): E.Either<MLGymFailure, never> =>
  E.left(
    mlgymFailure(
      'unexpected',
      `the recording has ${what} ${JSON.stringify(expected)}, but the request has ${JSON.stringify(got)}`,
    ),
  )

/**
 * Replays recorded sessions: each session returns the recorded replies of its task, command by
 * command.
 *
 * Errors   `open` and `step` return `Left(MLGymFailure)` of kind `unexpected`, with the recorded
 *          and the requested value, for an unknown task, for a different command, and after the
 *          last one.
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
        if (exchange === undefined) return both('no further command:', null, command)
        if (exchange.command !== command) return both(`at position ${place} the command`, exchange.command, command)
        place++
        return E.right(exchange.reply)
      },
      close: async () => {},
    })
  },
})
