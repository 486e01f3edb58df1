/** The formats in which models write tool calls, and their detection in chat templates. */

/** The formats of tool calls, with vLLM's parser names where they exist. */
export const TOOL_CALL_FORMATS = [
  'hermes',
  'llama3_json',
  'pythonic',
  'llama4_pythonic',
  'mistral',
  'deepseek_v3',
  'deepseek_v31',
  'qwen3_coder',
  'granite',
  'phi4_mini_json',
  'internlm',
  'cohere_command3',
  'xml_block',
  'json_block',
  'json_call',
] as const

/**
 * A format of tool calls.
 *
 * | Format | Written by | A call |
 * | --- | --- | --- |
 * | `hermes` | Hermes, Qwen 2.5 and 3, Granite 4 | `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` |
 * | `llama3_json` | Llama 3 and 4 | the answer is `{"name": ..., "parameters": {...}}`, several with `;` between |
 * | `pythonic` | Llama 3.2, ToolACE | the answer is `[name(key="value", ...), ...]`, Python literals |
 * | `llama4_pythonic` | Llama 4 | the same, in `<|python_start|>` and `<|python_end|>` or without |
 * | `mistral` | Mistral | `[TOOL_CALLS][{"name": ..., "arguments": {...}, "id": ...}]`, or `[TOOL_CALLS]name[ARGS]{...}` |
 * | `deepseek_v3` | DeepSeek V3, R1 | in tags with full-width bars, the name, and the arguments in a fence |
 * | `deepseek_v31` | DeepSeek V3.1 | in these tags, name and arguments |
 * | `qwen3_coder` | Qwen3-Coder, Qwen 3.5 | `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>` |
 * | `granite` | Granite 3, Phi-4-mini | `<|tool_call|>[{"name": ..., "arguments": {...}}]` |
 * | `phi4_mini_json` | Phi-4-mini with vLLM's template | `functools[{"name": ..., "arguments": {...}}]` |
 * | `internlm` | InternLM 2 | `<|action_start|><|plugin|>{"name": ..., "parameters": {...}}<|action_end|>` |
 * | `cohere_command3` | Command R7B, A | `<|START_ACTION|>[{"tool_call_id": ..., "tool_name": ..., "parameters": {...}}]<|END_ACTION|>` |
 * | `xml_block` | TorchRL's `XMLBlockParser` | `<tool name="..." tag="...">{...}</tool>` |
 * | `json_block` | many models without training for tools | an object, or a list of them, in a fence of json |
 * | `json_call` | TorchRL's `JSONCallParser` | the answer is `{"message": ..., "tools": [{"tool": ..., "args": {...}}]}` |
 */
export type ToolCallFormat = (typeof TOOL_CALL_FORMATS)[number]

/** Returns a tag of DeepSeek: with full-width bars, and a block character for each blank. */
export const deepSeekTag = (words: string): string => `<\uff5c${words.replaceAll(' ', '\u2581')}\uff5c>`

const DEEPSEEK_TAGS = ['tool calls begin', 'tool call begin', 'tool sep', 'tool call end', 'tool calls end'].map(
  deepSeekTag,
)

/** Tags that may be special tokens of a tokenizer. */
const TAGS: Partial<Readonly<Record<ToolCallFormat, readonly string[]>>> = {
  hermes: ['<tool_call>', '</tool_call>'],
  llama4_pythonic: ['<|python_start|>', '<|python_end|>'],
  mistral: ['[TOOL_CALLS]', '[ARGS]', '[CALL_ID]'],
  deepseek_v3: DEEPSEEK_TAGS,
  deepseek_v31: DEEPSEEK_TAGS,
  qwen3_coder: ['<tool_call>', '</tool_call>'],
  granite: ['<|tool_call|>', '<|/tool_call|>'],
  internlm: ['<|action_start|>', '<|plugin|>', '<|action_end|>'],
  cohere_command3: ['<|START_ACTION|>', '<|END_ACTION|>'],
}

/**
 * Returns true if text must be decoded with its special tokens to read calls in it, because tags of
 * the format are special tokens of the tokenizer.
 *
 * @example
 * hasSpecialTags('mistral', new Set(['[TOOL_CALLS]'])) // true
 */
export const hasSpecialTags = (format: ToolCallFormat, specialTokens: Pick<ReadonlySet<string>, 'has'>): boolean =>
  (TAGS[format] ?? []).some((tag) => specialTokens.has(tag))

/**
 * The signs of each format: a template has the format if it contains all of them. The order
 * matters, because other formats contain the later signs too.
 */
const SIGNS: readonly (readonly [signs: readonly string[], format: ToolCallFormat | 'none'])[] = [
  [[deepSeekTag('tool call begin'), '```json'], 'deepseek_v3'],
  [[deepSeekTag('tool call begin')], 'deepseek_v31'],
  [['[TOOL_CALLS]'], 'mistral'],
  [['<function=', '<parameter='], 'qwen3_coder'],
  [['<|START_ACTION|>'], 'cohere_command3'],
  [['<|action_start|>'], 'internlm'],
  [['functools['], 'phi4_mini_json'],
  [['<|tool_call|>'], 'granite'],
  [['<arg_key>'], 'none'], // GLM
  [['<atem:'], 'none'], // Muse
  [['<tool_call>'], 'hermes'],
  [['<tool name='], 'xml_block'],
]

/**
 * Returns the format that a chat template asks the model for, or 'none' if it shows no known one.
 *
 * @example
 * toolCallFormatOf({ source: 'For each call, return JSON within <tool_call></tool_call> tags' }) // 'hermes'
 */
export const toolCallFormatOf = ({
  source: templateSource,
  toolPrompt,
}: {
  readonly source: string
  readonly toolPrompt?: { readonly format: ToolCallFormat }
}): ToolCallFormat | 'none' => {
  if (toolPrompt !== undefined) return toolPrompt.format
  const found = SIGNS.find(([signs]) => signs.every((sign) => templateSource.includes(sign)))
  if (found !== undefined) return found[1]
  const isLlama4 = /<\|(?:python_start|header_start)\|>/.test(templateSource)
  if (/\[\w+\(\w+=\w+/.test(templateSource)) return isLlama4 ? 'llama4_pythonic' : 'pythonic'
  return templateSource.includes('<|python_start|>') ||
    (/<\|python_tag\|>|"parameters":/.test(templateSource) && templateSource.includes('tools'))
    ? 'llama3_json'
    : 'none'
}
