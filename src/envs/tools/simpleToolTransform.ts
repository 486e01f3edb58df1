/** Tools that are called by name and arguments. */
import { aRecord, checkOptions, type OptionKinds, oneOf } from '../../core/options.js'
import type { HistoryPrompt } from '../../data/policy.js'
import { TOOL_CALL_FORMATS, type ToolCallFormat } from '../../text/toolCalls/format.js'
import type { Transform } from '../transforms/transform.js'
import { callsOfText } from './askedCalls.js'
import { type ToolRegistry, toolSpecs } from './toolRegistry.js'
import {
  TOOL_CALL_OPTIONS,
  type ToolCallOptions,
  type ToolEntries,
  type ToolTransformOptions,
  toolTransform,
} from './toolTransform.js'

/** Options of tools that are called by name and arguments. */
export interface NamedToolOptions extends ToolCallOptions {
  /**
   * The format in which the policy writes calls in its text. Default: calls are in the `toolCalls`
   * of its messages, and text is not parsed.
   */
  readonly format?: ToolCallFormat
}

export interface SimpleToolTransformOptions extends NamedToolOptions {
  readonly registry: ToolRegistry
}

/** The kinds of `NamedToolOptions`, for `checkOptions`. */
export const NAMED_TOOL_OPTIONS: OptionKinds<NamedToolOptions> = {
  ...TOOL_CALL_OPTIONS,
  format: oneOf(...TOOL_CALL_FORMATS),
}

/** `toolTransform` for tools that are called by name and arguments. */
export const namedToolTransform = ({
  format,
  ...options
}: Omit<ToolTransformOptions, 'read'> & NamedToolOptions): Transform<null, HistoryPrompt, ToolEntries> =>
  toolTransform({
    ...options,
    ...(format !== undefined && { read: callsOfText(format, { tools: toolSpecs(options.registry) }) }),
  })

/**
 * Runs the calls of the policy's last message at once, and puts their results behind it in the
 * order of the calls. Put it below `TemplateTransform`, and one of its kind in a chain: a
 * `ToolRegistry` holds any number of tools.
 *
 * What goes wrong with a call is told to the policy in its result: arguments that do not fit, a
 * tool that there is not, no answer in time, text that is no call. What says nothing of the policy,
 * a tool whose server is dead, fails the rollout.
 *
 * Errors   `Left(EnvFailure)` with the `ToolFailure` of kind `infrastructure` as its cause; throws
 *          RangeError for limits below 1.
 * Effects  those of the tools. A tool that does not end at its limit is left to itself, and what it
 *          gives then is dropped.
 * Source   TorchRL `SimpleToolTransform`, which stores its time limit and does not apply it.
 *
 * @example
 * SimpleToolTransform({ registry: ToolRegistry([calculator()]), format: 'hermes' }).name // 'SimpleToolTransform'
 */
export const SimpleToolTransform = (
  options: SimpleToolTransformOptions,
): Transform<null, HistoryPrompt, ToolEntries> => {
  checkOptions('SimpleToolTransform', options, { ...NAMED_TOOL_OPTIONS, registry: aRecord })
  return namedToolTransform({ name: 'SimpleToolTransform', ...options })
}

export interface ExecuteToolsInOrderOptions extends SimpleToolTransformOptions {
  /** What becomes of the calls of a message after one that gave no result. Default `continue`. */
  readonly onError?: 'continue' | 'stop'
}

/**
 * `SimpleToolTransform` that runs the calls of a message one after the other, each beginning with
 * what the one before it left.
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
    ...NAMED_TOOL_OPTIONS,
    registry: aRecord,
    onError: oneOf('continue', 'stop'),
  })
  return namedToolTransform({ name: 'ExecuteToolsInOrder', order: 'sequence', ...options })
}
