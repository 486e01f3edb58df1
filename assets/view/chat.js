/** A chat with any checkpoint. Its answers show the values of their tokens. */
import { runPath, stream } from './api.js'
import { fill, h } from './dom.js'
import { HEATS, paintToken } from './heat.js'
import { busy, tokenCard } from './inspector.js'
import { frame, loadRun } from './runFrame.js'
import { tokenText, tokenTip } from './transcript.js'
import { visible } from './visible.js'

/** @typedef {import('../../src/view/modelProtocol.ts').CheckpointChatRequest} CheckpointChatRequest */
/** @typedef {import('../../src/view/modelProtocol.ts').ChatLine} ChatLine */

/** @param {readonly number[]} steps @param {string} label @param {number} chosen */
const checkpointSelect = (steps, label, chosen) =>
  h(
    'label',
    {},
    label,
    h(
      'select',
      {},
      steps.map((step) =>
        h(
          'option',
          { value: String(step), selected: step === chosen },
          step === 0 ? 'initial weights' : `step ${step}`,
        ),
      ),
    ),
  )

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const chatView = async ({ path: [, id] }, signal) => {
  const run = await loadRun(id, signal)
  const steps = run.checkpoints
  const checkpoint = checkpointSelect(steps, 'Checkpoint', steps[steps.length - 1])
  const numeric = (label, value, properties) => {
    const input = h('input', { type: 'number', value: String(value), ...properties })
    return { label: h('label', {}, label, input), value: () => Number(input.value) }
  }
  const limit = numeric('New tokens', 128, { min: 1, max: 8192 })
  const temperature = numeric('Temperature', 0.7, { min: 0, max: 4, step: 0.1 })
  const seed = numeric('Seed', 1, { min: 0 })
  const log = h('ol', { class: 'chat', 'aria-live': 'polite', tabindex: '0', 'aria-label': 'Conversation' })
  const message = h('textarea', {
    rows: 3,
    'aria-label': 'Message',
    placeholder: 'Write a message. Enter sends it, Shift+Enter makes a new line.',
  })
  const send = h('button', { class: 'primary', type: 'submit' }, 'Send')
  const tip = tokenTip(tokenCard)
  /** @type {{ role: string, content: string }[]} */
  let messages = []
  const entry = (author, kind, body) =>
    h('li', { class: `turn by-${kind}` }, h('header', {}, h('strong', {}, author)), body)
  const submit = (event) => {
    event.preventDefault()
    const content = message.value.trim()
    if (content === '' || send.disabled) return
    message.value = ''
    messages = [...messages, { role: 'user', content }]
    const step = Number(checkpoint.querySelector('select').value)
    const reply = h('div', { class: 'text tokens', dir: 'ltr' })
    log.append(
      entry('You', 'user', h('div', { class: 'text', dir: 'ltr' }, visible(content))),
      entry(step === 0 ? 'Initial weights' : `Step ${step}`, 'model', reply),
    )
    const body = {
      checkpoint: step,
      messages,
      maxNewTokens: limit.value(),
      temperature: temperature.value(),
      seed: seed.value(),
    }
    busy(send, reply, async () => {
      let text = ''
      await stream(
        `${runPath(id)}/chat`,
        body,
        ({ token }) => {
          text += token.text
          const element = h(
            'span',
            {
              class: 'tok',
              onpointerenter: () => tip.show(token, element),
              onpointerleave: () => tip.show(undefined, null),
            },
            tokenText(token.text),
          )
          paintToken(element, token, HEATS.logProb.of(token) === null ? null : 'logProb')
          reply.append(element)
          log.scrollTop = log.scrollHeight
        },
        signal,
      )
      messages = [...messages, { role: 'assistant', content: text.replace(/<\|im_end\|>$/, '') }]
    })
  }
  message.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey) submit(event)
  })
  const clear = () => {
    messages = []
    fill(log)
    message.focus()
  }
  return {
    ...frame(run, 'chat'),
    body: h(
      'div',
      { class: 'chat-view' },
      h('div', { class: 'head' }, h('h1', {}, 'Chat'), h('button', { class: 'quiet', onclick: clear }, 'New chat')),
      h('div', { class: 'tools' }, checkpoint, limit.label, temperature.label, seed.label),
      h('div', { class: 'card' }, log, h('form', { class: 'composer', onsubmit: submit }, message, send)),
      tip.element,
    ),
    opened: () => message.focus(),
  }
}
