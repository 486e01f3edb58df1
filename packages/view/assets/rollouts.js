/** The rollouts of a run: filters, order, search, histograms and a virtual list. */
import { get, isExported, listen, runPath } from './api.js'
import { fill, h } from './dom.js'
import { filterChips, filterFields, filterOf } from './filters.js'
import { number, signed, whole } from './format.js'
import { address, go, keepAddress, queryOf } from './router.js'
import { histograms } from './run.js'
import { frame, loadRun, named } from './runFrame.js'
import { virtualList } from './virtualList.js'

const WIDE_ROW = 46
const NARROW_ROW = 78

const SHOWN_PARTS = 4

/** @param {number | null} advantage */
export const advantageClass = (advantage) =>
  advantage === null || Math.abs(advantage) < 1e-6 ? 'muted' : advantage > 0 ? 'up' : 'down'

/** @param {object} row of a rollout */
export const flagsOf = (row) => [
  row.truncated ? h('span', { class: 'badge warn' }, 'truncated') : null,
  row.failed ? h('span', { class: 'badge bad' }, 'failed') : null,
  row.toolErrors > 0 ? h('span', { class: 'badge bad' }, `${row.toolErrors} tool errors`) : null,
  row.labels.map((label) => h('span', { class: 'badge accent' }, named(label))),
]

const partsOf = ({ parts }) =>
  Object.entries(parts)
    .slice(0, SHOWN_PARTS)
    .map(([name, value]) =>
      h('span', { title: `${name}: ${value}` }, h('span', { class: 'muted' }, named(name), ' '), number(value)),
    )

const drawRow = (run, filter) => (row, index, isCursor) =>
  h(
    'a',
    {
      class: 'row',
      href: address(['run', run.id, 'rollout', row.id], filter),
      'aria-current': isCursor ? 'true' : null,
      data: { index: String(index) },
    },
    h('span', { class: 'c-step num' }, row.step),
    h('span', { class: 'c-reward num' }, number(row.reward)),
    h(
      'span',
      { class: `c-advantage num ${advantageClass(row.advantage)}` },
      row.advantage === null ? '–' : signed(row.advantage),
    ),
    h('span', { class: 'c-length num' }, whole(row.length)),
    h(
      'span',
      { class: 'c-turns num' },
      row.turns,
      row.toolCalls > 0 ? h('span', { class: 'muted' }, ` / ${row.toolCalls}`) : null,
    ),
    h(
      'span',
      { class: 'c-text' },
      h('span', { class: 'snippet', dir: 'ltr' }, named(row.snippet)),
      h('span', { class: 'query muted', dir: 'ltr' }, named(row.query)),
    ),
    h('span', { class: 'c-parts small' }, partsOf(row)),
    h('span', { class: 'c-flags' }, flagsOf(row)),
  )

const HEAD = [
  ['c-step num', 'Step'],
  ['c-reward num', 'Reward'],
  ['c-advantage num', 'Advantage'],
  ['c-length num', 'Tokens'],
  ['c-turns num', 'Turns'],
  ['c-text', 'Completion and task'],
  ['c-parts', 'Parts of the reward'],
  ['c-flags', ''],
]

const exports = (run, filter) => {
  if (isExported) return null
  const link = (format, label) =>
    h('a', { class: 'button', download: '', href: `${runPath(run.id)}/export${queryOf({ format, ...filter })}` }, label)
  return [link('sft', 'Export SFT'), link('preferences', 'Export pairs')]
}

/** The list that was open last: a rollout opened from it finds its neighbours there. */
let lastList = { key: '', list: null }

/** @param {string} id of a run @param {Record<string, string>} filter */
const keyOf = (id, filter) => JSON.stringify([id, Object.entries(filter).sort()])

/**
 * Returns the row before or after a rollout in the list from which it was opened, or undefined.
 *
 * @param {string} run
 * @param {Record<string, string>} filter
 * @param {string} rollout
 * @param {number} by 1 or -1
 */
export const neighbour = (run, filter, rollout, by) =>
  lastList.key === keyOf(run, filter) ? lastList.list.beside(rollout, by) : undefined

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const rolloutsView = async ({ path: [, id], query }, signal) => {
  const run = await loadRun(id, signal)
  let filter = filterOf(query)
  const fields = h('div')
  const chips = h('span')
  const count = h('span', { class: 'muted', role: 'status' })
  const charts = h('div', { class: 'hist-row' })
  const tools = h('span', { class: 'tools wide-only' })
  const rowHeight = matchMedia('(max-width: 700px)').matches ? NARROW_ROW : WIDE_ROW
  const loaded = (answer) => {
    count.textContent = `${whole(answer.total)}${answer.isPartial ? '+' : ''} of ${whole(run.rollouts)} rollouts`
    fill(charts, histograms(run, answer.histogram, filter))
    none.hidden = answer.total > 0
  }
  const failed = (error) => {
    if (!signal.aborted) fill(count, h('span', { class: 'error' }, error.message))
  }
  const list = virtualList({
    rowHeight,
    load: (offset, limit) => get(`${runPath(id)}/rollouts`, { ...filter, offset, limit }, signal),
    draw: (row, index, isCursor) => drawRow(run, filter)(row, index, isCursor),
    loaded,
    failed,
    label: 'Rollouts',
    start: lastList.key === keyOf(id, filter) ? lastList.list.index() : 0,
  })
  lastList = { key: keyOf(id, filter), list }
  const none = h('p', { class: 'empty', hidden: true }, 'No rollouts match.')
  const drawFields = () => fill(fields, filterFields({ run, filter: () => filter, change, chips }).element)
  const change = (fieldsToSet, isRedrawn = false) => {
    filter = filterOf({
      ...filter,
      ...Object.fromEntries(Object.entries(fieldsToSet).map(([name, value]) => [name, value ?? ''])),
    })
    keepAddress(address(['run', id, 'rollouts'], filter))
    fill(chips, filterChips(filter, change))
    fill(tools, exports(run, filter))
    if (isRedrawn) drawFields()
    lastList = { key: keyOf(id, filter), list }
    list.reload(true)
  }
  drawFields()
  fill(chips, filterChips(filter, change))
  fill(tools, exports(run, filter))
  const ready = list.reload(false)
  const refresh = () => list.reload(false)
  signal.addEventListener('abort', listen(`${runPath(id)}/events`, { rollouts: refresh }))
  await ready
  const openCurrent = () =>
    list.current() !== undefined && go(address(['run', id, 'rollout', list.current().id], filter))
  return {
    ...frame(run, 'rollouts'),
    body: h(
      'div',
      { class: 'rollouts' },
      h('div', { class: 'head' }, h('h1', {}, 'Rollouts'), count, tools),
      fields,
      charts,
      h(
        'div',
        { class: 'card list' },
        h(
          'div',
          { class: 'row list-head', 'aria-hidden': 'true' },
          HEAD.map(([kind, label]) => h('span', { class: kind }, label)),
        ),
        list.element,
        none,
      ),
    ),
    opened: () => list.moveTo(list.index()),
    keys: [
      { keys: 'j, ArrowDown', label: 'Next rollout', run: () => list.move(1) },
      { keys: 'k, ArrowUp', label: 'Previous rollout', run: () => list.move(-1) },
      { keys: 'PageDown', label: 'One screen down', run: () => list.move(list.pageSize()) },
      { keys: 'PageUp', label: 'One screen up', run: () => list.move(-list.pageSize()) },
      { keys: 'Home, g g', label: 'First rollout', run: () => list.moveTo(0) },
      { keys: 'End, G', label: 'Last rollout', run: list.toEnd },
      { keys: 'Enter', label: 'Open the rollout', run: openCurrent },
    ],
  }
}
