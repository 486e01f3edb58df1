import { orThrow } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { TOKENS } from '../../../../test/kit/chatTemplates.js'
import { ownTemplates } from '../../../../test/kit/ownTemplates.js'
import { chatTemplate } from '../../src/template/chatTemplate.js'
import { turnEndOf } from '../../src/template/turnEnd.js'

const LOOP = "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + END }}{% endfor %}"

/** A template that writes `end` after each message and `after` after the conversation. */
const writing = (end: string, after = ''): string => LOOP.replace('END', end) + after

/** Public models: the template, its added tokens, the end of the assistant's turn. */
const ARRANGEMENTS: Readonly<Record<string, readonly [source: string, end: string | undefined]>> = {
  'chatml, as Qwen': [ownTemplates.get('chatml')!, '<|im_end|>'],
  'chatml with tools': [ownTemplates.get('hermes')!, '<|im_end|>'],
  'chatml with thoughts': [ownTemplates.get('thoughts')!, '<|im_end|>'],
  'headers, as Llama 3': [ownTemplates.get('headers')!, '<|eot|>'],
  'an eos_token after each answer, as Mistral': [ownTemplates.get('inst')!, '</s>'],
  'turns, as Gemma': [ownTemplates.get('turns')!, '<end_of_turn>'],
  'bars, as DeepSeek': [ownTemplates.get('bars')!, '<|end_of_sentence|>'],
  'an eos_token after the conversation, as Phi-3': [
    writing("'<|end|>\\n'", '{% if not add_generation_prompt %}{{ eos_token }}{% endif %}'),
    '<|end|>',
  ],
  'an eos_token directly after the conversation': [writing("'<|im_end|>'", '{{ eos_token }}'), '<|im_end|>'],
  'two tokens that end an answer together, as Command A': [writing("'<|end|><|eot|>'"), '<|eot|>'],
  'another token after the last answer, as gpt-oss': [
    writing("('<|return|>' if loop.last and not add_generation_prompt else '<|end|>')"),
    '<|return|>',
  ],
  'a token that the next message begins with, as GLM': [writing("''"), undefined],
  'no token': [writing("'\\n\\n'"), undefined],
  'messages that are refused': ["{{ raise_exception('no') }}", undefined],
}

const ADDED = [
  ...['<|im_start|>', '<|im_end|>', '<|start_header|>', '<|end_header|>', '<|eot|>', '</s>', '<|end|>', '<|return|>'],
  ...['<end_of_turn>', '<start_of_turn>', '<|end_of_sentence|>', '<|User|>', '<|Assistant|>', '<|user|>', '\n', '\n\n'],
  '<|assistant|>',
].map((content) => ({ content }))

describe('turnEndOf', () => {
  it.each(Object.entries(ARRANGEMENTS))('finds the end of the assistant turn of %s', (_, [source, end]) => {
    expect(turnEndOf(orThrow(chatTemplate(source, TOKENS)), ADDED)).toBe(end)
  })
})
