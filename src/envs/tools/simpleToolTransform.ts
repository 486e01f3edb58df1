import type { Alarms } from '../../core/capabilities.js'
import { type Limiter, limiter } from '../../core/limiter.js'
import { aFunction, aRecord, aText, checkOptions, type OptionKinds, oneOf } from '../../core/options.js'
import type { HistoryPrompt } from '../../data/policy.js'
import { liveAlarms } from '../../live/clock.js'
import { TOOL_CALL_FORMATS, type ToolCallFormat } from '../../text/toolCalls/format.js'
import type { Transform } from '../transforms/transform.js'
import { callsOfMessage, callsOfText } from './askedCalls.js'
import type { LateCall, RunCallsOptions } from './runCalls.js'
import { type ToolRegistry, toolSpecs } from './toolRegistry.js'
import { type ToolEntries, type ToolTransformOptions, toolTransform } from './toolTransform.js'

export interface ToolLimits {
  /** Calls of a message that are run; the others are answered that they were not. Default 16. */
  readonly calls?: number
  /** Messages with calls in an episode: one more truncates it, and its calls are not run. Default 32. */
  readonly rounds?: number
  /** Milliseconds for each call. Default 60,000. */
  readonly timeoutMs?: number
}

export interface SimpleToolTransformOptions {
  readonly registry: ToolRegistry
  /** How the policy writes calls in its text. Default: they are in the `toolCalls` of its messages, and nothing is read out of text. */
  readonly format?: ToolCallFormat
  /** What a message without a call does to its episode. Default `terminate`: it is the answer. */
  readonly onNoCall?: ToolTransformOptions['onNoCall']
  /** The role of the messages with results. Default `tool`. */
  readonly role?: string
  readonly limits?: ToolLimits
  /** How many calls run at a time, of all conversations that share it. Default: 8 of those of this transform. */
  readonly limiter?: Limiter
  readonly alarms?: Alarms
  /** Told of each reply that came after its time, and was dropped. Default: nobody is told. */
  readonly onLate?: (late: LateCall) => void
}

/** The whole options of a transform whose tools are called by name and arguments. */
export const toolSettings = (
  name: string,
  options: SimpleToolTransformOptions,
  how: Pick<RunCallsOptions, 'order' | 'onError'>,
): ToolTransformOptions => {
  const { registry, format, onNoCall = 'terminate', role = 'tool', limits = {}, alarms = liveAlarms } = options
  const { calls: maxCalls = 16, rounds: maxRounds = 32, timeoutMs = 60_000 } = limits
  return {
    name,
    read: format === undefined ? callsOfMessage : callsOfText(format, { tools: toolSpecs(registry) }),
    registry,
    onNoCall,
    role,
    maxCalls,
    maxRounds,
    run: { ...how, timeoutMs, alarms, limiter: options.limiter ?? limiter(8), onLate: options.onLate ?? (() => {}) },
  }
}

/** The options of every transform of tools, for `checkOptions`. */
export const TOOL_TRANSFORM_OPTIONS: OptionKinds<Omit<SimpleToolTransformOptions, 'registry'>> = {
  format: oneOf(...TOOL_CALL_FORMATS),
  onNoCall: oneOf('terminate', 'continue'),
  role: aText,
  limits: aRecord,
  limiter: aRecord,
  alarms: aRecord,
  onLate: aFunction,
}

/**
 * Runs the calls of the policy's last message at once, and puts their results behind it in the order of the calls. Put it below
 * `TemplateTransform`, and one of its kind in a chain: a `ToolRegistry` holds any number of tools.
 *
 * What goes wrong with a call is told to the policy in its result: arguments that do not fit, a tool that there is not, no answer in time,
 * text that is no call. What says nothing of the policy, a tool whose server is dead, fails the rollout.
 *
 * Errors   `Left(EnvFailure)` with the `ToolFailure` of kind `infrastructure` as its cause; throws RangeError for limits below 1.
 * Effects  those of the tools. A tool that does not end at its limit is left to itself, and what it gives then is dropped.
 * Source   TorchRL `SimpleToolTransform`, which stores its time limit and does not apply it.
 *
 * @example
 * SimpleToolTransform({ registry: ToolRegistry([calculator()]), format: 'hermes' }).name // 'SimpleToolTransform'
 */
export const SimpleToolTransform = (
  options: SimpleToolTransformOptions,
): Transform<null, HistoryPrompt, ToolEntries> => {
  checkOptions('SimpleToolTransform', options, { ...TOOL_TRANSFORM_OPTIONS, registry: aRecord })
  return toolTransform(toolSettings('SimpleToolTransform', options, { order: 'parallel', onError: 'continue' }))
}

export interface ExecuteToolsInOrderOptions extends SimpleToolTransformOptions {
  /** What becomes of the calls of a message after one that gave no result. Default `continue`. */
  readonly onError?: RunCallsOptions['onError']
}

/**
 * `SimpleToolTransform` that runs the calls of a message one after the other, each beginning with what the one before it left.
 *
 * Errors   as `SimpleToolTransform`.
 * Effects  as `SimpleToolTransform`.
 * Source   TorchRL `ExecuteToolsInOrder`, whose `stop_on_error` is `onError: 'stop'`.
 *
 * @example
 * ExecuteToolsInOrder({ registry: ToolRegistry([calculator()]), onError: 'stop' }).name // 'ExecuteToolsInOrder'
 */
export const ExecuteToolsInOrder = (
  options: ExecuteToolsInOrderOptions,
): Transform<null, HistoryPrompt, ToolEntries> => {
  checkOptions('ExecuteToolsInOrder', options, {
    ...{ ...TOOL_TRANSFORM_OPTIONS, registry: aRecord },
    onError: oneOf('continue', 'stop'),
  })
  return toolTransform(
    toolSettings('ExecuteToolsInOrder', options, { order: 'sequence', onError: options.onError ?? 'continue' }),
  )
}
