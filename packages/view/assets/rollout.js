/** One rollout: its conversation token by token, its group, its labels and comment. */
import { agentsCard } from './agents.js'
import { get, isExported, put, runPath } from './api.js'
import { announce, card, fill, h } from './dom.js'
import { filterOf } from './filters.js'
import { number, signed, whole } from './format.js'
import { groupName, groupPanel } from './group.js'
import { HEATS, heatsIn, legendOf } from './heat.js'
import { inspector, tokenCard } from './inspector.js'
import { player } from './player.js'
import { advantageClass, flagsOf, neighbour } from './rollouts.js'
import { address, go, keepAddress } from './router.js'
import { frame, loadRun, named, wordsOf } from './runFrame.js'
import { tokenTip, transcript } from './transcript.js'
import { longText } from './visible.js'

const tile = (label, value, kind) =>
  h('div', { class: 'tile' }, h('span', { class: 'muted small' }, label), h('strong', { class: kind }, value))

const facts = (row) =>
  h(
    'div',
    { class: 'tiles' },
    tile('Reward', number(row.reward)),
    row.advantage === null ? null : tile('Advantage', signed(row.advantage), advantageClass(row.advantage)),
    Object.entries(row.parts).map(([name, value]) => tile(named(name), number(value))),
    tile('Tokens', whole(row.length)),
    tile('Turns', whole(row.turns)),
    row.toolCalls > 0 ? tile('Tool calls', whole(row.toolCalls)) : null,
    row.version === null ? null : tile('Weights', `version ${row.version}`),
  )

/** Labels and comment, saved in the run folder. */
const annotationForm = (run, answer) => {
  const labels = h('input', {
    value: answer.annotation.labels.join(' '),
    placeholder: 'good hack wrong-format',
    list: 'labels',
  })
  const comment = h('textarea', { rows: 3, placeholder: 'What did you see?' })
  comment.value = answer.annotation.comment
  const save = async (event) => {
    event.preventDefault()
    try {
      const body = { labels: wordsOf(labels.value), comment: comment.value }
      await put(`${runPath(run.id)}/rollouts/${encodeURIComponent(answer.row.id)}/annotation`, body)
      announce('Annotation saved')
    } catch (error) {
      announce(error.message)
    }
  }
  return {
    focus: () => labels.focus(),
    element: h(
      'form',
      { class: 'pad', onsubmit: save },
      h(
        'datalist',
        { id: 'labels' },
        run.labels.map((label) => h('option', { value: label })),
      ),
      h('label', { class: 'field' }, 'Labels', labels),
      h('label', { class: 'field' }, 'Comment', comment),
      h('button', { type: 'submit' }, 'Save'),
    ),
  }
}

const shownAnnotation = ({ annotation }) =>
  annotation.labels.length === 0 && annotation.comment === ''
    ? null
    : card(
        'Annotation',
        null,
        h(
          'div',
          { class: 'pad' },
          annotation.labels.map((label) => h('span', { class: 'badge accent' }, named(label))),
          longText(annotation.comment),
        ),
      )

const HEAT = 'tandem-heat'
let heat = sessionStorage.getItem(HEAT) ?? 'logProb'

const heatSwitch = (available, chosen) => {
  const legend = h('span', { class: 'legend-slot' })
  const buttons = [null, ...available].map((name) =>
    h('button', { class: 'segment', data: { heat: name ?? 'none' } }, name === null ? 'Text' : HEATS[name].label),
  )
  const draw = (name) => {
    for (const each of buttons) each.setAttribute('aria-pressed', String(each.dataset.heat === (name ?? 'none')))
    fill(legend, legendOf(name))
  }
  buttons.forEach((button, i) =>
    button.addEventListener('click', () => {
      const name = [null, ...available][i]
      draw(name)
      chosen(name)
    }),
  )
  return {
    element: h(
      'div',
      { class: 'tools heat-switch' },
      h('span', { class: 'segments', role: 'group', 'aria-label': 'Color the tokens by' }, buttons),
      legend,
    ),
    draw,
    buttons,
  }
}

/** The place that an address names; without a turn, in the first turn of the model. */
const placeIn = (query, turns) => {
  if (query.token === undefined) return null
  const turn = query.turn === undefined ? turns.findIndex((each) => each.tokens !== undefined) : Number(query.turn)
  const token = Number(query.token)
  return turns[turn]?.tokens?.[token] === undefined ? null : { turn, token }
}

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const rolloutView = async ({ path: [, id, , rollout], query }, signal) => {
  const path = `${runPath(id)}/rollouts/${encodeURIComponent(rollout)}`
  const [run, answer] = await Promise.all([loadRun(id, signal), get(path, {}, signal)])
  const { row, turns } = answer
  const filter = filterOf(query)
  const available = heatsIn(turns.flatMap((turn) => turn.tokens ?? []))
  const current = () => (available.includes(heat) ? heat : null)
  const panel = h(
    'div',
    { class: 'pad' },
    h(
      'p',
      { class: 'muted' },
      available.length === 0
        ? 'This log has no values of tokens.'
        : 'Point at a token to see its values. Click it, or move with the arrow keys, to keep it here.',
    ),
  )
  const tip = tokenTip(tokenCard)
  let ask = () => undefined
  let closing = new AbortController()
  signal.addEventListener('abort', () => closing.abort())
  const chosen = (place) => {
    closing.abort()
    closing = new AbortController()
    const token = turns[place.turn].tokens[place.token]
    const made = inspector(run, { place: { rollout, ...place }, token, version: row.version }, closing.signal)
    ask = made.ask
    fill(panel, made.element)
    keepAddress(address(['run', id, 'rollout', rollout], { ...filter, ...place }))
  }
  const pointed = (place, target) =>
    tip.show(place === null ? undefined : turns[place.turn].tokens[place.token], target)
  const text = transcript({ turns, heat: current, chosen, pointed })
  const switcher = heatSwitch(available, (name) => {
    heat = name ?? 'none'
    sessionStorage.setItem(HEAT, heat)
    text.repaint()
  })
  switcher.draw(current())
  const step = (by, more = {}) => {
    const beside = neighbour(id, filter, rollout, by)?.id ?? (by > 0 ? answer.next : answer.previous)
    if (beside === null || beside === undefined)
      announce(by > 0 ? 'This is the last rollout' : 'This is the first rollout')
    else go(address(['run', id, 'rollout', beside], { ...filter, ...more }))
  }
  const playback = player({ turns, transcript: text.element, next: (play) => step(1, { play }), signal })
  const canWrite = !isExported && run.features.includes('write')
  const annotation = canWrite ? annotationForm(run, answer) : null
  const place = placeIn(query, turns)
  const nextHeat = () =>
    switcher.buttons[
      (switcher.buttons.findIndex((each) => each.getAttribute('aria-pressed') === 'true') + 1) % switcher.buttons.length
    ].click()
  return {
    ...frame(run, 'rollouts', `step ${row.step}, rollout ${row.index + 1}`),
    body: h(
      'div',
      {},
      h(
        'div',
        { class: 'head' },
        h('h1', {}, `Rollout ${row.index + 1} of step ${row.step}`),
        flagsOf(row),
        h(
          'a',
          { class: 'small', href: address(['run', id, 'rollouts'], { group: row.group }) },
          `group ${groupName(row.group)}`,
        ),
        h('button', { onclick: () => step(-1), title: 'Previous rollout (k)' }, '← Previous'),
        h('button', { onclick: () => step(1), title: 'Next rollout (j)' }, 'Next →'),
      ),
      facts(row),
      agentsCard(id, rollout, answer.agents),
      h(
        'div',
        { class: 'reader' },
        h(
          'div',
          { class: 'stack' },
          h(
            'section',
            { class: 'card', 'aria-label': 'Conversation' },
            playback.element,
            available.length === 0 ? null : switcher.element,
            text.element,
          ),
          answer.answer === null
            ? null
            : card('Reference answer', null, h('div', { class: 'pad' }, longText(answer.answer))),
        ),
        h(
          'aside',
          { class: 'stack', 'aria-label': 'Token and annotation' },
          card('Token', null, panel),
          annotation === null ? shownAnnotation(answer) : card('Labels and comment', null, annotation.element),
        ),
      ),
      answer.groupSize > 1 ? card(`Group of ${answer.groupSize}`, null, groupPanel(run, answer, signal)) : null,
      tip.element,
    ),
    opened: () => {
      if (place !== null) text.show(place)
      if (query.play !== undefined) playback.goOn(Number(query.play))
    },
    keys: [
      { keys: 'j', label: 'Next rollout', run: () => step(1) },
      { keys: 'k', label: 'Previous rollout', run: () => step(-1) },
      { keys: 'h', label: 'Next color of the tokens', run: nextHeat },
      { keys: 'w', label: 'Why did this token move?', run: () => ask() },
      { keys: 'p', label: 'Play or pause the rollout', run: playback.toggle },
      { keys: '.', label: 'Play to the next turn', run: () => playback.turnBy(1) },
      { keys: ',', label: 'Back to the turn before', run: () => playback.turnBy(-1) },
      { keys: 'a', label: 'Edit labels and comment', run: () => annotation?.focus() },
      { keys: 'u', label: 'Back to the list', run: () => go(address(['run', id, 'rollouts'], filter)) },
    ],
  }
}
