import { checkOptions } from '@tandem-rl/base'
import { codeFences, type Message, textOf, withoutThoughts } from '@tandem-rl/text'
import type { HistoryPrompt, Transform } from 'tandem-rl'
import { PYTHON_INTERPRETER_OPTIONS } from '../optionKinds.js'
import { type CallFinder, callsOfMessage, type RequestedCalls } from './requestedCalls.js'
import type { Tool } from './tool.js'
import { ToolRegistry } from './toolRegistry.js'
import { type ToolCallOptions, type ToolEntries, toolTransform } from './toolTransform.js'

const NAME = 'PythonInterpreter'

/** Options of `PythonInterpreter`. A message without code `continue`s its episode by default. */
export interface PythonInterpreterOptions extends ToolCallOptions {
  /** Runs the code: a `pythonTool`. Its owner closes it. */
  readonly tool: Tool
  /** Languages of code blocks that are run. Default: python, python3, py. */
  readonly languages?: readonly string[]
}

/**
 * Returns the code blocks of a message as calls of the tool. If the message has `toolCalls`, those
 * are returned instead.
 */
const callsOf = (reply: Message, name: string, languages: readonly string[]): RequestedCalls => {
  if (reply.toolCalls.length > 0) return callsOfMessage(reply, undefined)
  const blocks = codeFences(withoutThoughts(textOf(reply))).filter(({ language }) => languages.includes(language))
  return {
    calls: blocks.filter(({ isClosed }) => isClosed).map(({ code }) => ({ name, arguments: { code } })),
    malformed: blocks.some(({ isClosed }) => !isClosed) ? ['a block of code has no closing fence'] : [],
  }
}

/**
 * Runs the Python code blocks of the policy's last message, outside of its thoughts, one after
 * another, and appends a message with the output of each.
 *
 * If the tool has `memory: 'session'`, the blocks of a conversation share their variables. Nothing
 * is shared between conversations. Code that does not end is stopped by the tool's own time limit;
 * the one in `limits` should be longer.
 *
 * Errors   as `SimpleToolTransform`: the rollout fails if the sandbox is not available.
 * Effects  those of the tool.
 * Source   TorchRL `PythonInterpreter`, which has no sandbox.
 *
 * @example
 * PythonInterpreter({ tool: pythonTool({ memory: 'session' }) }).name // 'PythonInterpreter'
 */
export const PythonInterpreter = (options: PythonInterpreterOptions): Transform<null, HistoryPrompt, ToolEntries> => {
  checkOptions(NAME, options, PYTHON_INTERPRETER_OPTIONS)
  const { tool, languages = ['python', 'python3', 'py'], onNoCall = 'continue', ...rest } = options
  const read: CallFinder = (reply) => callsOf(reply, tool.name, languages)
  return toolTransform({
    name: NAME,
    registry: ToolRegistry([tool]),
    read,
    order: 'sequence',
    onNoCall,
    ...rest,
  })
}
