/**
 * The bridge's protocol over real pipes: with a stand-in that speaks it, and with the bridge itself
 * over a stand-in of MLGym.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { keyFromSeed, orThrow, type Timers } from '@tandem-rl/base'
import { requireLeft } from '@tandem-rl/testing'
import type * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { answered, empty, freeing, numbersAt, replies } from '../../../../test/kit/conversation.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { isAlive } from '../../../../test/kit/resources.js'
import { makeMLGym } from '../../src/mlgym/makeMLGym.js'
import { processMLGym } from '../../src/mlgym/processMLGym.js'
import type { MLGymFailure, MLGymSession } from '../../src/mlgym/session.js'

useEngine()

const failureOf = <T>(result: E.Either<MLGymFailure, T>): MLGymFailure => requireLeft(result, 'MLGymFailure')

const STAND_IN = { command: process.execPath, args: ['test/kit/mlgymStandIn.mjs'] }
const request = { task: 'prisonersDilemma', maxSteps: 5, seed: 9 }

const pidOf = ({ opened }: MLGymSession): number => Number(opened.description.split(' ').at(-1))

describe('processMLGym', () => {
  it('opens a session in a process of its own, runs commands in it, and ends it', async () => {
    const mlgym = processMLGym(STAND_IN)
    const [one, other] = [orThrow(await mlgym.open(request)()), orThrow(await mlgym.open(request)())]
    expect(one.opened).toMatchObject({ baseline: { Score: 1 }, shell: { workingDirectory: '/work' } })
    expect(one.opened.description).toBe(`prisonersDilemma 5 9 ${pidOf(one)}`)
    expect(pidOf(one)).not.toBe(pidOf(other))
    expect(orThrow(await one.step('ls "ä"\npwd')()).observation).toBe('ran ls "ä"\npwd')
    expect(orThrow(await one.step('validate')()).scores).toEqual([{ Score: 2, Loss: null }])
    expect(orThrow(await one.step('big')()).observation).toBe('å'.repeat(300_000))
    expect(orThrow(await one.step('submit')())).toMatchObject({ done: true, exitStatus: 'submitted' })
    await Promise.all([one.close(), other.close()])
    expect([isAlive(pidOf(one)), isAlive(pidOf(other))]).toEqual([false, false])
    await one.close() // again: nothing is left to end
  })

  it.each<[string, RegExp]>([
    ['refuse', /^RuntimeError: no$/],
    ['garbage', /^the bridge sent an invalid response: Traceback$/],
    ['wrong', /^the bridge's response does not match its schema: /],
    ['die', /^the resource 'MLGym bridge': it ended with code 3: out of luck$/],
  ])('a bridge that answers %j with what it should not is a failure', async (command, reason) => {
    const session = orThrow(await processMLGym(STAND_IN).open(request)())
    expect(failureOf(await session.step(command)())).toMatchObject({
      kind: 'infrastructure',
      reason: expect.stringMatching(reason),
    })
    await session.close()
    expect(isAlive(pidOf(session))).toBe(false)
  })

  it('a bridge that is late is ended', async () => {
    const rings: (() => void)[] = []
    const timers: Timers = {
      after: (_ms, ring) => {
        rings.push(ring)
        return () => {}
      },
    }
    const session = orThrow(await processMLGym({ ...STAND_IN, timers, stepLimitMs: 5 }).open(request)())
    const late = session.step('hang')()
    rings.at(-1)!()
    expect(failureOf(await late).reason).toBe("the resource 'MLGym bridge': it did not answer in 5 ms")
    expect(isAlive(pidOf(session))).toBe(false)
    expect(failureOf(await session.step('ls')()).reason).toMatch(/: it ended with /)
    await session.close()
  })

  it('a task that is not there and a program that is not there are failures', async () => {
    expect(failureOf(await processMLGym(STAND_IN).open({ ...request, task: 'missing' })()).reason).toBe(
      'FileNotFoundError: tasks/missing.yaml',
    )
    const none = await processMLGym({ command: 'no-such-program-of-mlgym' }).open(request)()
    expect(failureOf(none).reason).toBe(
      "the resource 'MLGym bridge': no-such-program-of-mlgym: there is no such program",
    )
  })

  it('makeMLGym plays an episode through it, and leaves no process', () =>
    freeing(async (keep) => {
      const { env, sessions } = makeMLGym({ tasks: ['prisonersDilemma'], mlgym: STAND_IN })
      const first = keep(await answered(env.reset(empty(1), keyFromSeed(1))))
      const next = keep(await answered(env.step(first, replies('Done.\n```\nsubmit\n```'))))
      expect([numbersAt(next, 'reward'), numbersAt(next, 'done')]).toEqual([[2], [1]])
      await sessions.close()
      expect(sessions.alive()).toBe(0)
    }))
})

/** The part of MLGym that the bridge imports: an environment that returns its arguments. */
const FAKE_MLGYM: Readonly<Record<string, string>> = {
  'gymnasium.py': 'def make(name, devices):\n    from mlgym.environment.env import ENVS\n    return ENVS[name]\n',
  'mlgym/__init__.py': 'from pathlib import Path\nCONFIG_DIR = Path("configs")\nprint("noise of an import")\n',
  'mlgym/agent/__init__.py': '',
  'mlgym/agent/base.py': `from types import SimpleNamespace as N
class AgentArguments:
    def __init__(self, model, agent_config_path):
        self.config = N(state_command=N(name="state", code="state() { :; }"), env_variables={"WINDOW": 100}, command_files=[], tools_handler=N(command_docs="open <path>"))
`,
  'mlgym/backend/__init__.py': '',
  'mlgym/backend/base.py': 'class ModelArguments:\n    def __init__(self, name):\n        pass\n',
  'mlgym/environment/__init__.py': '',
  'mlgym/environment/registration.py':
    'def register_task(arguments):\n    from mlgym.environment.env import ENVS, Env\n    ENVS[f"mlgym/{arguments.task.id}"] = Env(arguments)\n',
  'mlgym/environment/env.py': `from types import SimpleNamespace as N
ENVS = {}
class EnvironmentArguments:
    def __init__(self, **given):
        self.given = given
        self.task = N(id=given["task_config_path"])
class Env:
    def __init__(self, arguments):
        self.arguments = arguments
        self.unwrapped = self
        self.said = []
        self.task = N(args=N(description="a task", baseline_scores=[{"Score": 2.25}]))
    def reset(self, seed):
        print("noise of a reset")
    def communicate(self, command):
        return '{"open_file": "n/a", "working_dir": "/workspace"}'
    def communicate_with_handling(self, command, error_msg):
        self.said.append(command)
    def add_commands(self, files):
        self.said.append(files)
    def step(self, command):
        if command == "raise":
            raise RuntimeError("container is gone")
        info = {"score": [{"Score": 2.5, "Loss": float("nan"), "name": "x"}], "exit_status": "submitted"} if command == "submit" else {"score": []}
        return repr(self.said), 0, command == "submit", info
    def close(self):
        print("closed")
`,
}

/**
 * Why the bridge cannot run here; empty if it can. Where there is no Python there is no MLGym
 * either.
 */
const noPython = ((): string => {
  try {
    execFileSync('python3', ['--version'], { stdio: 'ignore' })
    return ''
  } catch {
    return ' (skipped: there is no python3)'
  }
})()

describe('packages/tools/assets/mlgymBridge.py', () => {
  const title = 'speaks for MLGym: opens, steps with what was measured, and says what is raised'
  it.skipIf(noPython !== '')(`${title}${noPython}`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'mlgym-'))
    try {
      for (const [name, text] of Object.entries(FAKE_MLGYM)) {
        mkdirSync(dirname(join(folder, name)), { recursive: true })
        writeFileSync(join(folder, name), text)
      }
      const mlgym = processMLGym({ folder, env: { PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' } })
      const session = orThrow(await mlgym.open(request)())
      const shell = { openFile: 'n/a', workingDirectory: '/workspace' }
      expect(session.opened).toEqual({
        description: 'a task',
        commandDocs: 'open <path>',
        baseline: { Score: 2.25 },
        shell,
      })
      const reply = orThrow(await session.step('ls')())
      expect(reply).toEqual({
        observation: "['state() { :; }\\nWINDOW=100', []]",
        done: false,
        exitStatus: null,
        scores: [],
        shell,
      })
      expect(failureOf(await session.step('raise')()).reason).toBe('RuntimeError: container is gone')
      expect(orThrow(await session.step('submit')())).toMatchObject({
        done: true,
        exitStatus: 'submitted',
        scores: [{ Score: 2.5, Loss: null }],
      })
      await session.close()
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
