/**
 * Many conversations at the same time whose turns run Python in the sandbox, and what they leave
 * behind.
 */
import { readdirSync } from 'node:fs'
import { keyFromSeed } from '@tandem-rl/base'
import { type Message, message, textOf } from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import { PythonInterpreter, pythonTool } from '@tandem-rl/tools'
import { pipe } from 'fp-ts/lib/function.js'
import { data } from '../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { ChatEnv } from '../../src/envs/chatEnv.js'
import { append } from '../../src/envs/transforms/transform.js'
import { answered, asking } from './conversation.js'
import { markedSandbox, processesWith, temporaryFolders } from './sandboxes.js'

/** Possible leaks of a run of conversations. */
export interface Remains {
  readonly processes: number
  readonly temporaryFolders: number
  /** Files, pipes and sockets of this process. */
  readonly descriptors: number
}

const remains = (mark: string): Remains => ({
  processes: processesWith(mark).length,
  temporaryFolders: temporaryFolders().length,
  descriptors: readdirSync('/proc/self/fd').length,
})

const fenced = (code: string): Message => message('assistant', `Let me see.\n\`\`\`python\n${code}\n\`\`\``)

/**
 * Plays `count` conversations of two turns, all of them at once: the first makes a number, the
 * second one needs it. Gives what each was told last, what was there before, and what
 * is there now.
 */
export const pythonConversations = async (count: number) => {
  const mark = `conversations-${process.pid}-${count}`
  const sandbox = markedSandbox(mark)
  await sandbox.run({ command: 'true', args: [] })() // allocations of the first use are not a leak
  const before = remains(mark)
  const tool = pythonTool({ sandbox, memory: 'session', limits: { wallMs: 300_000 } })
  const env = pipe(ChatEnv({ batchSize: count }), append(PythonInterpreter({ tool, limits: { timeoutMs: 600_000 } })))
  const act = (code: (i: number) => string) =>
    TensorDict({ history: { response: data(Array.from({ length: count }, (_, i) => fenced(code(i)))) } }, [count])
  const queries = Array.from({ length: count }, (_, i) => `Question ${i}`)
  const first = own(await answered(env.reset(asking(...queries), keyFromSeed(0))))
  const second = own(
    await answered(
      env.step(
        first.value,
        act((i) => `import os\nx = ${i}\nopen("f", "w").write(str(x))`),
      ),
    ),
  )
  // A state that was stepped is a state.
  const stepped = second.value as typeof first.value
  const third = own(
    await answered(
      env.step(
        stepped,
        act(() => 'print(x * x, open("f").read())'),
      ),
    ),
  )
  const told = get(third.value, 'history', 'prompt')
    .items.toArray()
    .map(({ messages }) => textOf(messages.last()!)) // a question, at least
  for (const each of [first, second, third]) each.release()
  await tool.close()
  await sandbox.close()
  return { told, before, after: () => remains(mark) }
}
