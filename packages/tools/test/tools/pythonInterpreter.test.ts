import { keyFromSeed } from '@tandem-rl/base'
import { type Message, message, textOf } from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import { pipe } from 'fp-ts/lib/function.js'
import { expect, it } from 'vitest'
import { data } from '../../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { ChatEnv } from '../../../../src/envs/chatEnv.js'
import { append } from '../../../../src/envs/transforms/transform.js'
import { answered, asking, refused } from '../../../../test/kit/conversation.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { pythonConversations } from '../../../../test/kit/pythonConversations.js'
import { describeWithPython, markedSandbox } from '../../../../test/kit/sandboxes.js'
import { liveSandbox } from '../../src/sandbox/liveSandbox.js'
import { PythonInterpreter, type PythonInterpreterOptions } from '../../src/tools/pythonInterpreter.js'
import { pythonTool } from '../../src/tools/pythonTool.js'

useEngine()

const sandbox = markedSandbox(`interpreter-${process.pid}`)
const toolOf = (memory: 'none' | 'session') => pythonTool({ sandbox, memory, limits: { wallMs: 120_000 } })

const envOf = (options: PythonInterpreterOptions) =>
  pipe(ChatEnv({ batchSize: 1 }), append(PythonInterpreter({ ...options, limits: { timeoutMs: 300_000 } })))

type Env = ReturnType<typeof envOf>

const reset = (env: Env) => answered(env.reset(asking('Go'), keyFromSeed(0)))
type State = Awaited<ReturnType<typeof reset>>

const act = (reply: string | Message) =>
  TensorDict({ history: { response: data([typeof reply === 'string' ? message('assistant', reply) : reply]) } }, [1])

/** Plays replies after a state; gives what the environment said after each, and the last state. */
const play = async (env: Env, from: State, replies: readonly (string | Message)[]) => {
  const heard: (readonly string[])[] = []
  const states: { readonly release: () => void }[] = []
  let state = from
  for (const reply of replies) {
    const before = get(state, 'history', 'prompt').items.get(0)!.messages.size
    const next = own(await answered(env.step(state, act(reply))))
    states.push(next)
    state = next.value as State // a state that was stepped is a state
    const messages = get(state, 'history', 'prompt').items.get(0)!.messages
    heard.push(
      messages
        .slice(before + 1)
        .map((each) => `${each.role}: ${textOf(each)}`)
        .toArray(),
    )
  }
  return { heard, state, release: () => states.forEach((each) => each.release()) }
}

const fence = (code: string, language = 'python'): string => `\`\`\`${language}\n${code}\n\`\`\``

describeWithPython('PythonInterpreter', () => {
  it('runs every block of Python in a message, and puts what it prints behind it', async () => {
    const env = envOf({ tool: toolOf('none') })
    const start = own(await reset(env))
    const { heard, release } = await play(env, start.value, [
      `First:\n${fence('print(6 * 7)')}\nand\n${fence('ignored', 'js')}\n${fence('x', 'py')}`,
      'No code, print(1).',
      '```python\nprint("cut',
      message('assistant', '', { toolCalls: [{ name: 'python', arguments: { code: 'print("called")' } }] }),
    ])
    expect(heard[0]![0]).toBe('tool: 42')
    expect(heard[0]![1]).toContain("NameError: name 'x' is not defined")
    expect(heard[0]!.length).toBe(2)
    expect(heard[1]).toEqual([])
    expect(heard[2]![0]).toContain('a block of code has no closing fence')
    expect(heard[3]).toEqual(['tool: called'])
    release()
    start.release()
  })

  it('continues from any state of a conversation, independently of the others', async () => {
    const tool = toolOf('session')
    const env = envOf({ tool })
    const start = own(await reset(env))
    const stem = await play(env, start.value, [fence('x = [1]')])
    const left = await play(env, stem.state, [fence('x.append(2)'), fence('print(x)')])
    const right = await play(env, stem.state, [fence('print(x)')])
    expect([left.heard.at(-1), right.heard.at(-1)]).toEqual([['tool: [1, 2]'], ['tool: [1]']])
    for (const each of [stem, left, right]) each.release()
    start.release()
    await tool.close()
  })

  it('leaves nothing of 50 conversations at the same time', async () => {
    const { told, before, after } = await pythonConversations(50)
    expect(told).toEqual(Array.from({ length: 50 }, (_, i) => `${i * i} ${i}`))
    await expect.poll(after).toEqual(before) // Node closes pipes in its own time
    expect(before.processes).toBe(0)
  })
})

it('fails the rollout where the sandbox cannot be had', async () => {
  const closed = liveSandbox()
  await closed.close()
  const env = envOf({ tool: pythonTool({ sandbox: closed }) })
  const start = own(await reset(env))
  const failure = await refused(env.step(start.value, act(fence('print(1)'))))
  start.release()
  expect(failure).toMatchObject({
    _tag: 'EnvFailure',
    cause: { kind: 'infrastructure', reason: 'the sandbox is closed' },
  })
})
