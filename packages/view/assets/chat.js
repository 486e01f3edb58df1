/** A chat with any checkpoint. Its answers show the values of their tokens. */
import { runPath, stream } from './api.js'
import { fill, h } from './dom.js'
import { HEATS, paintToken } from './heat.js'
import { tokenCard } from './inspector.js'
import { alternatives, checkpointField, checkpointName, numberField } from './modelParts.js'
import { frame, loadRun } from './runFrame.js'
import { tokenText, tokenTip } from './transcript.js'
import { visible } from './visible.js'

/** @typedef {import('../src/modelProtocol.ts').CheckpointChatRequest} CheckpointChatRequest */
/** @typedef {import('../src/modelProtocol.ts').ChatLine} ChatLine */

const entry = (author, kind, body) =>
  h('li', { class: `turn by-${kind}` }, h('header', {}, h('strong', {}, author)), body)

/** The list of messages, and how an answer grows in it. */
const conversation = (tip) => {
  const log = h('ol', { class: 'chat', 'aria-live': 'polite', tabindex: '0', 'aria-label': 'Conversation' })
  const append = (...items) => {
    log.append(...items)
    log.scrollTop = log.scrollHeight
  }
  const reply = (author) => {
    const text = h('div', { class: 'text tokens', dir: 'ltr' })
    append(entry(author, 'model', text))
    return {
      add: (token) => {
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
        text.append(element)
        log.scrollTop = log.scrollHeight
      },
      fail: (reason) => text.append(h('p', { class: 'error', role: 'alert' }, reason)),
    }
  }
  const say = (content) => append(entry('You', 'user', h('div', { class: 'text', dir: 'ltr' }, visible(content))))
  return { log, say, reply, clear: () => fill(log) }
}

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const chatView = async ({ path: [, id] }, signal) => {
  const run = await loadRun(id, signal)
  const checkpoint = checkpointField(run, 'Checkpoint', run.checkpoints.at(-1) ?? 0)
  const [limit, temperature, seed] = [
    numberField('New tokens', 128, { min: 1, max: 4096 }),
    numberField('Temperature', 0.7, { min: 0, max: 4, step: 0.1 }),
    numberField('Seed', 1, { min: 0 }),
  ]
  const tip = tokenTip((token) => [tokenCard(token), alternatives(token)])
  const { log, say, reply, clear } = conversation(tip)
  const message = h('textarea', {
    rows: 3,
    'aria-label': 'Message',
    placeholder: 'Write a message. Enter sends it, Shift+Enter makes a new line.',
  })
  const send = h('button', { class: 'primary', type: 'submit' }, 'Send')
  const stop = h('button', { type: 'button', disabled: true }, 'Stop')
  /** @type {{ role: string, content: string }[]} */
  let messages = []
  let asking = new AbortController()
  stop.addEventListener('click', () => asking.abort())
  signal.addEventListener('abort', () => asking.abort())
  const setBusy = (isBusy) => {
    send.disabled = isBusy
    stop.disabled = !isBusy
  }
  const submit = async (event) => {
    event.preventDefault()
    const content = message.value.trim()
    if (content === '' || send.disabled) return
    message.value = ''
    say(content)
    const asked = [...messages, { role: 'user', content }]
    const step = checkpoint.value()
    const answer = reply(checkpointName(step))
    const body = {
      ...{ checkpoint: step, messages: asked, maxNewTokens: limit.value() },
      ...{ temperature: temperature.value(), seed: seed.value() },
    }
    setBusy(true)
    asking = new AbortController()
    let text = ''
    const take = (line) => {
      if (line.type !== 'token') return
      text += line.text
      answer.add(line.token)
    }
    try {
      await stream(`${runPath(id)}/chat`, body, take, asking.signal)
    } catch (error) {
      if (!asking.signal.aborted) answer.fail(error.message)
    } finally {
      setBusy(false)
    }
    messages = [...asked, { role: 'assistant', content: text }]
  }
  message.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey) submit(event)
  })
  const restart = () => {
    asking.abort()
    messages = []
    clear()
    message.focus()
  }
  return {
    ...frame(run, 'chat'),
    body: h(
      'div',
      { class: 'chat-view' },
      h('div', { class: 'head' }, h('h1', {}, 'Chat'), h('button', { class: 'quiet', onclick: restart }, 'New chat')),
      h(
        'div',
        { class: 'tools' },
        [checkpoint, limit, temperature, seed].map(({ element }) => element),
      ),
      h('div', { class: 'card' }, log, h('form', { class: 'composer', onsubmit: submit }, message, send, stop)),
      tip.element,
    ),
    opened: () => message.focus(),
  }
}
