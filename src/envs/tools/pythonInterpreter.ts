import type { Alarms } from '../../core/capabilities.js'
import { type Limiter, limiter } from '../../core/limiter.js'
import { aList, aRecord, aText, checkOptions, type OptionKinds, oneOf } from '../../core/options.js'
import type { HistoryPrompt } from '../../data/policy.js'
import { liveAlarms } from '../../live/clock.js'
import { type Message, textOf } from '../../text/history/history.js'
import type { Transform } from '../transforms/transform.js'
import { type AskedCalls, callsOfMessage } from './askedCalls.js'
import { type CodeFence, codeFences } from './codeFences.js'
import type { ToolLimits } from './simpleToolTransform.js'
import type { Tool } from './tool.js'
import { ToolRegistry } from './toolRegistry.js'
import { type ToolEntries, type ToolTransformOptions, toolTransform } from './toolTransform.js'

const NAME = 'PythonInterpreter'

export interface PythonInterpreterOptions {
  /** What runs the code: `pythonTool`, which its maker closes at the end. */
  readonly tool: Tool
  /** Words behind an opening fence that mean Python. Default: python, python3, py. */
  readonly languages?: readonly string[]
  /** What a message without code does to its episode. Default `continue`. */
  readonly onNoCall?: ToolTransformOptions['onNoCall']
  /** The role of the messages with results. Default `tool`. */
  readonly role?: string
  readonly limits?: ToolLimits
  /** How many blocks run at a time, of all conversations that share it. Default: 8 of those of this transform. */
  readonly limiter?: Limiter
  readonly alarms?: Alarms
}

/** The blocks of code of a message, as calls of the tool; a message that calls it by name is taken at its word. */
const callsOf = (reply: Message, name: string, languages: readonly string[]): AskedCalls => {
  if (reply.toolCalls.length > 0) return callsOfMessage(reply, undefined)
  const isPython = ({ language }: CodeFence): boolean => languages.includes(language)
  const blocks = codeFences(textOf(reply)).filter(isPython)
  return {
    calls: blocks.filter(({ isClosed }) => isClosed).map(({ code }) => ({ name, arguments: { code } })),
    malformed: blocks.some(({ isClosed }) => !isClosed) ? ['a block of code has no closing fence'] : [],
  }
}

const PYTHON_INTERPRETER_OPTIONS: OptionKinds<PythonInterpreterOptions> = {
  tool: aRecord,
  languages: aList,
  onNoCall: oneOf('terminate', 'continue'),
  role: aText,
  limits: aRecord,
  limiter: aRecord,
  alarms: aRecord,
}

/**
 * Runs the Python between fences in the policy's last message, one block after the other, and puts a message with the output of each behind it.
 *
 * Where the tool remembers, so do the blocks of a conversation: its state holds the earlier ones, and nothing is shared between conversations. Code
 * that does not end is stopped by the tool's own limit; the one of `limits` should be longer.
 *
 * Errors   as `SimpleToolTransform`: the rollout fails where the sandbox cannot be had.
 * Effects  those of the tool.
 * Source   TorchRL `PythonInterpreter`, which has no sandbox.
 *
 * @example
 * PythonInterpreter({ tool: pythonTool({ memory: 'session' }) }).name // 'PythonInterpreter'
 */
export const PythonInterpreter = (options: PythonInterpreterOptions): Transform<null, HistoryPrompt, ToolEntries> => {
  checkOptions('PythonInterpreter', options, PYTHON_INTERPRETER_OPTIONS)
  const { tool, languages = ['python', 'python3', 'py'], onNoCall = 'continue', role = 'tool', limits = {} } = options
  const { calls: maxCalls = 16, rounds: maxRounds = 32, timeoutMs = 60_000 } = limits
  return toolTransform({
    ...{ name: NAME, registry: ToolRegistry([tool]), onNoCall, role, maxCalls, maxRounds },
    read: (reply) => callsOf(reply, tool.name, languages),
    run: {
      ...{ order: 'sequence', onError: 'continue', timeoutMs, onLate: () => {} },
      alarms: options.alarms ?? liveAlarms,
      limiter: options.limiter ?? limiter(8),
    },
  })
}
