/** Software-engineering agents: each repairs a small repository in the sandbox. */
import { describe, orThrow } from '@tandem-rl/base'
import { textOf } from '@tandem-rl/text'
import { fileTools, sweReward } from '@tandem-rl/tools'
import { afterAll, expect, it } from 'vitest'
import type { AgentRowTask } from '../../../../src/data/datasets/agentRows.js'
import { scriptedBackend } from '../../../../test/kit/chains.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { settle } from '../../../../test/kit/manualTime.js'
import { describeWithPython, markedSandbox, processesWith } from '../../../../test/kit/sandboxes.js'
import { type AgentFactory, BashSWEAgent, FunctionCallSWEAgent, Qwen3CoderSWEAgent } from '../../src/agents/agents.js'

useEngine()

const MARK = `swe-agents-${process.pid}`
const row = { question: 'The tests of bag.py fail. Repair it.' }

const FILES = {
  'bag.py': 'def most(words):\n    return min(set(words), key=words.count)\n',
  'test_bag.py':
    'import unittest, bag\n\nclass Bag(unittest.TestCase):\n    def test_most(self):\n        self.assertEqual(bag.most(["a", "b", "b"]), "b")\n',
}
/** Not seen by the policy, and also true of ties. */
const HIDDEN = {
  'test_bag.py': `${FILES['test_bag.py']}\n    def test_one(self):\n        self.assertEqual(bag.most(["c"]), "c")\n`,
}
const TESTS = 'python3 -m unittest -q'

const bash = (command: string) => `Next:\n\`\`\`bash\n${command}\n\`\`\``
const xml = (name: string, args: Readonly<Record<string, string>>) =>
  `<tool_call>\n<function=${name}>\n${Object.entries(args)
    .map(([key, value]) => `<parameter=${key}>\n${value}\n</parameter>\n`)
    .join('')}</function>\n</tool_call>`
const json = (name: string, args: object) => `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`

const EDIT = { path: 'bag.py', old: 'min(', new: 'max(' }

interface Repair {
  readonly agent: AgentFactory
  readonly says: readonly string[]
}

const REPAIRS: Readonly<Record<string, Repair>> = {
  BashSWEAgent: {
    agent: BashSWEAgent,
    says: [
      bash(TESTS),
      bash('cat bag.py'),
      bash("sed -i 's/min(/max(/' bag.py"),
      bash(TESTS),
      'It took the rarest word.',
    ],
  },
  Qwen3CoderSWEAgent: {
    agent: Qwen3CoderSWEAgent,
    says: [
      xml('run_shell_command', { command: TESTS }),
      xml('read_file', { path: 'bag.py', start: '2' }),
      xml('edit_file', EDIT),
      xml('run_shell_command', { command: TESTS }),
      'It took the rarest word.',
    ],
  },
  FunctionCallSWEAgent: {
    agent: FunctionCallSWEAgent,
    says: [
      json('run_shell_command', { command: TESTS }),
      json('grep_files', { pattern: 'words.count' }),
      json('edit_file', EDIT),
      json('run_shell_command', { command: TESTS }),
      'It took the rarest word.',
    ],
  },
}

describeWithPython('software-engineering agents', () => {
  const { tools, environment } = fileTools({ sandbox: markedSandbox(MARK), files: () => FILES })
  const rewardFn = sweReward<AgentRowTask>({ environment, command: TESTS, files: () => HIDDEN })
  afterAll(environment.close)

  it.each(Object.entries(REPAIRS))('%s repairs a repository', async (_, { agent, says }) => {
    const repairer = agent({ modelNameOrPath: 'small', tools, rewardFn, backendConfig: scriptedBackend(says) })
    const { trajectories, rewards } = await orThrow(repairer.run({ messages: [row], maxTurns: 8 }))
    const [chain] = trajectories
    expect([chain!.failure, chain!.finishReason, rewards]).toEqual([null, 'no_tool_calls', [1]])
    expect(chain!.calls.map(({ outcome }) => outcome)).toEqual(['ok', 'ok', 'ok', 'ok'])
    const results = chain!.messages
      .map(textOf)
      .filter((_, i) => chain!.messages[i]!.role !== 'assistant')
      .slice(-4)
    expect(results[0]).toContain('FAILED (failures=1)')
    expect(results[1]).toContain('key=words.count')
    expect(results[3]).toMatch(/Ran 1 test[\s\S]*OK/)
  })

  it('no reward for a repair of the tests instead of the code, which hidden tests replace', async () => {
    const says = [json('run_shell_command', { command: 'rm test_bag.py; echo > test_bag.py' }), 'The tests pass now.']
    const cheat = FunctionCallSWEAgent({
      modelNameOrPath: 'small',
      tools,
      rewardFn,
      backendConfig: scriptedBackend(says),
    })
    const { trajectories, rewards } = await orThrow(cheat.run({ messages: [row] }))
    expect([trajectories[0]!.failure, rewards]).toEqual([null, [0]])
  })

  it('a failure, and no reward of 0, if the sandbox ended', async () => {
    const says = [json('run_shell_command', { command: 'kill -9 $PPID' }), 'Done.']
    const killer = FunctionCallSWEAgent({
      modelNameOrPath: 'small',
      tools,
      rewardFn,
      backendConfig: scriptedBackend(says),
    })
    const { trajectories, rewards } = await orThrow(killer.run({ messages: [row] }))
    expect([trajectories[0]!.finishReason, rewards]).toEqual(['failed', [null]])
    expect(describe(trajectories[0]!.failure!)).toMatch(/the resource 'files': it died/)
  })

  it('leave no process', async () => {
    await settle()
    await environment.pool.drain()
    expect([environment.pool.stats().leased, processesWith(MARK)]).toEqual([0, []])
  })
})
