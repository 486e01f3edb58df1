/** The reward of code: the share of tests that it passes, run in the sandbox. */

import {
  cancellation,
  checkOptions,
  parseJson,
  SANDBOX_LIMITS,
  type Sandbox,
  type SandboxFailure,
  type SandboxLimits,
  type SandboxSession,
} from '@tandem-rl/base'
import { codeFences, type Task, textOf, withoutThoughts } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { RewardFailure, RewardService, ScoreContext, Scored } from 'tandem-rl/rewards'
import { CODE_TESTS_OPTIONS } from '../optionKinds.js'
import { liveSandbox } from '../sandbox/liveSandbox.js'
import { ANSWER_PROGRAM, TEST_PROGRAM } from './codePeers.js'

/** One test of a program. */
export type CodeTest =
  /**
   * The program reads `input` and must write `output`. Trailing spaces of lines and empty lines at
   * the end are ignored.
   */
  | { readonly _tag: 'Lines'; readonly input: string; readonly output: string }
  /**
   * Python that calls what the program defines. It passes unless it raises, exits or has a failing
   * `unittest.TestCase`; it runs as `__main__`. The names of `subjects` are the program's; without
   * them all that it defines are, but for those of Python and its library. Arguments and results
   * are copies. A `StopIteration` that a call raises becomes a `RuntimeError`: only `next` ends a
   * loop.
   */
  | { readonly _tag: 'Asserts'; readonly code: string; readonly subjects?: readonly string[] }

export interface CodeTestsOptions<in T extends Task> {
  /** Returns the tests of a task. */
  readonly tests: (task: T) => readonly CodeTest[]
  /**
   * `share`: passed tests of all; `all`: 1 if every test passes, and 0 otherwise. Default `share`.
   */
  readonly reward?: 'share' | 'all'
  /** Default: its own bubblewrap sandbox. */
  readonly sandbox?: Sandbox
  /** The limits of each test. */
  readonly limits?: Partial<SandboxLimits>
  /** Folders and files of this machine that the programs may read: an environment with packages. */
  readonly readOnly?: readonly string[]
}

const NAME = 'codeTests'
const PYTHON: readonly string[] = ['python', 'python3', 'py', '']

/** Returns the program of a reply: its last closed block of Python, or without a language. */
const programOf = (text: string): string | undefined =>
  codeFences(withoutThoughts(text)).findLast(({ language, isClosed }) => isClosed && PYTHON.includes(language))?.code

/** Normalizes output for comparison: without trailing spaces and empty lines at the end. */
const compared = (text: string): string =>
  text
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
    .trimEnd()

/** The resources that tests run with. */
interface Judge {
  readonly sandbox: Sandbox
  readonly limits: SandboxLimits
  readonly readOnly: readonly string[]
  readonly signal: AbortSignal
}

type Verdict = E.Either<SandboxFailure, 'passed' | 'failed'>

const FAILED: Verdict = E.right('failed')

const ENV = { PYTHONHASHSEED: '0', OMP_NUM_THREADS: '1', OPENBLAS_NUM_THREADS: '1' } as const

const runLines = async (
  code: string,
  test: CodeTest & { readonly _tag: 'Lines' },
  { sandbox, limits, readOnly, signal }: Judge,
): Promise<Verdict> => {
  const outputBytes = Math.max(limits.outputBytes, 4 * test.output.length + 1024)
  const program = {
    command: 'python3',
    args: ['-s', '-X', 'utf8', 'answer.py'],
    files: { 'answer.py': code },
    stdin: test.input,
    env: ENV,
    readOnly,
    limits: { ...limits, outputBytes },
  }
  const ended = await sandbox.run(program, { signal })()
  if (E.isLeft(ended)) return ended
  const { code: exit, stdout } = ended.right
  const isRight = exit === 0 && stdout.dropped === 0 && compared(stdout.text) === compared(test.output)
  return E.right(isRight ? 'passed' : 'failed')
}

/** Maximum number of messages between the two sides of a test. */
const MAX_MESSAGES = 10_000

/** Sends a line and reads one back; undefined if the other side ended or wrote too much. */
const exchange = async (
  session: SandboxSession,
  line: string,
  signal: AbortSignal,
): Promise<E.Either<SandboxFailure, string | undefined>> => {
  const result = await session.ask(line === '' ? '' : `${line}\n`, '\n', { signal })()
  if (E.isLeft(result)) return result
  return E.right(
    result.right._tag === 'Said' && result.right.output.dropped === 0 ? result.right.output.text : undefined,
  )
}

/** Parses the verdict in a line of the tests' side, if it is one. */
const verdictIn = (line: string): Verdict | undefined => {
  const read = parseJson(line)
  if (E.isLeft(read) || typeof read.right !== 'object' || read.right === null || !('holds' in read.right))
    return undefined
  return E.right(read.right.holds === true ? 'passed' : 'failed')
}

/** Passes lines between both sides until the tests' side has a verdict. */
const converse = async (answer: SandboxSession, tester: SandboxSession, signal: AbortSignal): Promise<Verdict> => {
  let line = ''
  for (let count = 0; count < MAX_MESSAGES; count++) {
    const fromAnswer = await exchange(answer, line, signal)
    if (E.isLeft(fromAnswer)) return fromAnswer
    if (fromAnswer.right === undefined) return FAILED
    const fromTester = await exchange(tester, fromAnswer.right, signal)
    if (E.isLeft(fromTester)) return fromTester
    if (fromTester.right === undefined) return FAILED
    const verdict = verdictIn(fromTester.right)
    if (verdict !== undefined) return verdict
    line = fromTester.right
  }
  return FAILED
}

const runAsserts = async (
  code: string,
  { code: test, subjects = [] }: CodeTest & { readonly _tag: 'Asserts' },
  { sandbox, limits, readOnly, signal }: Judge,
): Promise<Verdict> => {
  const open = (program: string, request: object) => {
    const args = ['-s', '-X', 'utf8', '-c', program]
    const stdin = `${JSON.stringify(request)}\n`
    return sandbox.open({ command: 'python3', args, stdin, env: ENV, readOnly, limits })()
  }
  const answer = await open(ANSWER_PROGRAM, { code })
  if (E.isLeft(answer)) return answer
  const tester = await open(TEST_PROGRAM, { test, subjects })
  const whole = cancellation({ signal, deadlineMs: limits.wallMs })
  try {
    return E.isLeft(tester) ? tester : await converse(answer.right, tester.right, whole.signal)
  } finally {
    whole.release()
    await answer.right.close()
    if (E.isRight(tester)) await tester.right.close()
  }
}

const runTest = (code: string, test: CodeTest, judge: Judge): Promise<Verdict> =>
  test._tag === 'Lines' ? runLines(code, test, judge) : runAsserts(code, test, judge)

const rewardFailure = (reason: string): RewardFailure => ({ _tag: 'RewardFailure', rewardName: NAME, reason })

const scored = (share: number, mode: 'share' | 'all', found: 'code' | 'none'): Scored => ({
  reward: mode === 'share' ? share : Math.floor(share),
  success: share === 1,
  parts: { passed: share, code: found === 'code' ? 1 : 0 },
})

/**
 * Runs the last Python block of the answer against the task's tests, each in its own sandbox.
 *
 * An answer can pass only with right values: the expected output of a program is compared outside
 * the sandbox, and assertions run in a second sandbox, which gets nothing but results from the
 * first. What the answer prints, when it exits, and which files it reads or names it replaces makes
 * no difference.
 *
 * Equation $r = n_{passed} / n$ with `share`; parts: `passed`, the share in any case, and `code`, 1
 * if there was a program
 * Errors   `Left(RewardFailure)` if the sandbox is not available, the signal aborts, or the task
 *          has no tests.
 * Effects  one process for a test of lines, two for assertions.
 * Cost     about 0.05 s of processor time for each process, plus the time of the program, up to
 *          `limits`.
 *
 * @example
 * codeTests({ tests: () => [{ _tag: 'Lines', input: '2', output: '4' }] }).partNames // ['passed', 'code']
 */
export const codeTests = <T extends Task>(options: CodeTestsOptions<T>): RewardService<T> => {
  checkOptions('codeTests', options, CODE_TESTS_OPTIONS)
  const { tests, reward = 'share', sandbox = liveSandbox(), readOnly = [] } = options
  const limits = { ...SANDBOX_LIMITS, outputBytes: 2 ** 20, ...options.limits }
  const judged = async (
    code: string,
    wanted: readonly CodeTest[],
    { signal }: ScoreContext,
  ): Promise<E.Either<RewardFailure, Scored>> => {
    const all = cancellation({ signal })
    const verdicts = await Promise.all(
      wanted.map(async (test) => {
        const part = all.part()
        const verdict = await runTest(code, test, { sandbox, limits, readOnly, signal: part.signal })
        part.release()
        return verdict
      }),
    )
    all.release()
    if (signal.aborted) return E.left(rewardFailure('the score was cancelled'))
    const failure = verdicts.find(E.isLeft)
    if (failure !== undefined) return E.left(rewardFailure(failure.left.reason))
    const passed = verdicts.filter((verdict) => E.isRight(verdict) && verdict.right === 'passed').length
    return E.right(scored(passed / wanted.length, reward, 'code'))
  }
  return {
    name: NAME,
    partNames: ['passed', 'code'],
    range: [0, 1],
    score: ({ task, history }, context): TaskEither<RewardFailure, Scored> => {
      const wanted = tests(task)
      const last = history.messages.findLast(({ role }) => role === 'assistant')
      const code = last === undefined ? undefined : programOf(textOf(last))
      return async () => {
        if (wanted.length === 0) return E.left(rewardFailure(`the task ${task.id} has no tests`))
        return code === undefined ? E.right(scored(0, reward, 'none')) : judged(code, wanted, context)
      }
    },
  }
}
