/** The text side of a small model, and agents on scripted policies. */

import { AsyncVerlConfig } from '@tandem-rl/agents'
import { orThrow } from '@tandem-rl/base'
import { scriptedPolicy } from '@tandem-rl/testing'
import { chatTemplate, textTokenizer, trainBytePairEncoding } from '@tandem-rl/text'
import type { ModelText } from '../../src/modules/pretrained/pretrained.js'

/** A template that teaches Hermes' format of tool calls. */
const TEMPLATE = `{%- if tools %}{{- 'Call tools by <tool_call></tool_call>: ' + (tools | tojson) + '\\n' }}{% endif %}
{%- for m in messages %}{{- '[' + m.role + ']' + m.content + '[end]' }}{% endfor %}
{%- if add_generation_prompt %}{{- '[assistant]' }}{% endif %}`

/** A template without tools. */
export const PLAIN_TEMPLATE = TEMPLATE.slice(TEMPLATE.indexOf('\n') + 1)

export const END = '[end]'

/** The text side of a model with bytes as tokens. */
export const smallText = (template: string = TEMPLATE): ModelText => ({
  tokenizer: orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 257, specialTokens: [END] }))),
  template: orThrow(chatTemplate(template)),
  endOfTurn: END,
  files: {},
})

/** A policy that replies with these texts, one for each call. */
export const saying = (texts: readonly string[], text: ModelText = smallText()) =>
  scriptedPolicy({ answers: texts.map((each) => [...text.tokenizer.encode(`${each}${END}`)]) })

/** The backend of a trainer whose engine returns these texts. */
export const scriptedBackend = (texts: readonly string[], text: ModelText = smallText()) =>
  AsyncVerlConfig({ engine: saying(texts, text), text })
