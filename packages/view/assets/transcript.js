/** The turns of a rollout: authors, folded tool calls, and tokens with their colors. */
import { fill, h } from './dom.js'
import { number } from './format.js'
import { paintToken } from './heat.js'
import { longText, visible } from './visible.js'

const AUTHORS = { template: 'Template', system: 'System', user: 'User', tool: 'Tool', model: 'Model' }

/** Tokens of one turn that are drawn at once. */
const CHUNK = 3000

const SPECIAL = /^<[|/]?[a-zA-Z_]{1,40}\|?>$/

/**
 * Returns the nodes of a token's text, in which a line break is visible.
 *
 * @param {string} text
 * @returns {Node[]}
 */
export const tokenText = (text) =>
  text
    .split('\n')
    .flatMap((line, i) => [
      ...(i === 0 ? [] : [h('span', { class: 'ctl soft' }, '↵'), document.createTextNode('\n')]),
      ...(line === '' ? [] : visible(line)),
    ])

/**
 * Returns the nodes of a short text on its own, with visible spaces.
 *
 * @param {string} text
 * @returns {Node[]}
 */
export const tokenLabel = (text) =>
  text === '' ? [h('span', { class: 'muted' }, 'empty')] : tokenText(text.replaceAll(' ', '␣').replaceAll('\t', '⇥'))

/**
 * Draws the tokens of one turn.
 *
 * @param {object} turn
 * @param {number} at index of the turn
 * @param {() => string | null} heat
 */
const tokensOf = (turn, at, heat) => {
  const box = h('div', {
    class: 'text tokens',
    dir: 'ltr',
    role: 'group',
    'aria-label': 'Tokens; arrow keys move between them',
  })
  let drawn = 0
  const more = h('button', { class: 'more', onclick: () => draw(drawn + CHUNK) })
  const draw = (end) => {
    const last = Math.min(end, turn.tokens.length)
    const parts = document.createDocumentFragment()
    for (let i = drawn; i < last; i++) {
      const token = turn.tokens[i]
      const kind = `tok${SPECIAL.test(token.text) ? ' special' : ''}${token.mask === false ? ' masked' : ''}${token.clipped === true ? ' clipped' : ''}`
      const element = h(
        'span',
        { class: kind, tabindex: i === 0 ? '0' : '-1', data: { turn: String(at), token: String(i) } },
        tokenText(token.text),
      )
      paintToken(element, token, heat())
      parts.append(element)
    }
    drawn = last
    more.remove()
    box.append(parts)
    if (drawn < turn.tokens.length) {
      more.textContent = `Show ${(turn.tokens.length - drawn).toLocaleString('en-US')} more tokens`
      box.append(more)
    }
  }
  draw(CHUNK)
  return { box, drawUpTo: (index) => (index >= drawn ? draw(index + CHUNK) : undefined) }
}

/** Lays out JSON text; text that is not JSON stays as it is. */
const tidy = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

const toolCalls = (calls) =>
  calls.map((call) =>
    h(
      'details',
      { class: 'call' },
      h(
        'summary',
        {},
        'Call ',
        h('code', {}, visible(call.name)),
        h('span', { class: 'muted clip' }, ' ', visible(call.arguments.slice(0, 120))),
      ),
      longText(tidy(call.arguments)),
    ),
  )

/** A text that the model did not write. Long ones and results of tools are folded. */
const contextText = (turn) => {
  const isFolded = turn.author === 'tool' || turn.author === 'template' || turn.text.length > 2000
  if (!isFolded) return longText(turn.text)
  const first = turn.text.slice(0, 140).split('\n', 1)[0]
  return h(
    'details',
    { open: turn.isError === true },
    h(
      'summary',
      {},
      h('span', { class: 'clip folded-only' }, visible(first)),
      h('span', { class: 'muted small' }, ` ${turn.text.length.toLocaleString('en-US')} characters`),
    ),
    longText(turn.text),
  )
}

/**
 * Makes the transcript of a rollout.
 *
 * @param {object} options
 * @param {readonly object[]} options.turns
 * @param {() => string | null} options.heat
 * @param {(place: { turn: number, token: number }, element: HTMLElement) => void} options.chosen
 * @param {(place: { turn: number, token: number } | null, element: HTMLElement | null) => void} options.pointed
 */
export const transcript = ({ turns, heat, chosen, pointed }) => {
  const drawers = new Map()
  const articles = turns.map((turn, at) => {
    const tokens = turn.tokens === undefined ? null : tokensOf(turn, at, heat)
    if (tokens !== null) drawers.set(at, tokens.drawUpTo)
    const facts = [
      turn.tokens === undefined ? null : turn.tokens.length === 1 ? '1 token' : `${turn.tokens.length} tokens`,
      turn.reward === undefined ? null : `reward ${number(turn.reward)}`,
      turn.stopReason === undefined || turn.stopReason === 'stop' ? null : `stopped: ${turn.stopReason}`,
    ].filter((each) => each !== null)
    return h(
      'article',
      { class: `turn by-${turn.author}${turn.isError === true ? ' is-error' : ''}` },
      h(
        'header',
        {},
        h('strong', {}, AUTHORS[turn.author] ?? turn.author),
        h('span', { class: 'muted small' }, facts.join(' · ')),
        turn.isError === true ? h('span', { class: 'badge bad' }, 'error') : null,
      ),
      tokens === null ? contextText(turn) : tokens.box,
      toolCalls(turn.toolCalls),
    )
  })
  const element = h('div', { class: 'transcript' }, articles)
  const placeOf = (target) => ({ turn: Number(target.dataset.turn), token: Number(target.dataset.token) })
  const tokenIn = (event) => (event.target instanceof Element ? event.target.closest('.tok[data-token]') : null)
  let current = null
  const choose = (target, focus) => {
    if (current !== null) {
      current.removeAttribute('aria-current')
      current.tabIndex = -1
    }
    current = target
    target.setAttribute('aria-current', 'true')
    target.tabIndex = 0
    if (focus) target.focus({ preventScroll: false })
    chosen(placeOf(target), target)
  }
  element.addEventListener('click', (event) => {
    const target = tokenIn(event)
    if (target !== null) choose(target, true)
  })
  element.addEventListener('pointerover', (event) => {
    const target = tokenIn(event)
    pointed(target === null ? null : placeOf(target), target)
  })
  element.addEventListener('pointerleave', () => pointed(null, null))
  element.addEventListener('focusin', (event) => {
    const target = tokenIn(event)
    if (target !== null) pointed(placeOf(target), target)
  })
  element.addEventListener('focusout', () => pointed(null, null))
  element.addEventListener('keydown', (event) => {
    const target = tokenIn(event)
    if (target === null) return
    const by = { ArrowRight: 'nextElementSibling', ArrowLeft: 'previousElementSibling' }[event.key]
    if (event.key === 'Enter') choose(target, true)
    else if (by !== undefined) {
      const next = target[by]
      if (next?.matches('.tok')) choose(next, true)
    } else return
    event.preventDefault()
  })
  return {
    element,
    /** Colors all tokens again. */
    repaint: () => {
      for (const each of element.querySelectorAll('.tok[data-token]')) {
        const { turn, token } = placeOf(each)
        paintToken(each, turns[turn].tokens[token], heat())
      }
    },
    /** Selects a token, and draws it if it is far down. */
    show: ({ turn, token }) => {
      drawers.get(turn)?.(token)
      const target = element.querySelector(`.tok[data-turn="${turn}"][data-token="${token}"]`)
      if (target === null) return
      choose(target, false)
      target.scrollIntoView({ block: 'center' })
    },
  }
}

/**
 * Makes the box that shows the values of the token under the pointer.
 *
 * @param {(token: object) => Node} content
 */
export const tokenTip = (content) => {
  const tip = h('div', { class: 'tip', role: 'tooltip', hidden: true })
  return {
    element: tip,
    show: (token, target) => {
      if (target === null || token === undefined) {
        tip.hidden = true
        return
      }
      fill(tip, content(token))
      tip.hidden = false
      const place = target.getClientRects()[0]
      const box = tip.getBoundingClientRect()
      const below = place.bottom + 6 + box.height < innerHeight
      tip.style.left = `${Math.max(6, Math.min(innerWidth - box.width - 6, place.left))}px`
      tip.style.top = `${below ? place.bottom + 6 : Math.max(6, place.top - box.height - 6)}px`
    },
  }
}
