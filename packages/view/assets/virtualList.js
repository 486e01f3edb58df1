/** A list of any length that holds only the rows on the screen, fetched page by page. */
import { fill, h } from './dom.js'

const PAGE = 100
/** Rows drawn above and below the screen. */
const MARGIN = 8
/** Pages kept; the ones used longest ago are dropped. */
const KEPT = 40
/** Rows that only pass by while scrolling are not fetched, in milliseconds. */
const REST = 40

/**
 * Makes a virtual list.
 *
 * @param {object} options
 * @param {number} options.rowHeight in pixels
 * @param {(offset: number, limit: number) => Promise<{ total: number, rows: readonly object[] }>} options.load
 * @param {(row: object, index: number, isCursor: boolean) => Element} options.draw
 * @param {(answer: object) => void} options.loaded called with each first page
 * @param {(error: Error) => void} options.failed
 * @param {string} options.label
 * @param {number} [options.start] index of the row that is current at first
 */
export const virtualList = ({ rowHeight, load, draw, loaded, failed, label, start = 0 }) => {
  /** @type {Map<number, readonly object[]>} */
  let pages = new Map()
  const waiting = new Set()
  let total = 0
  let cursor = start
  let version = 0
  let timer = 0
  const rows = h('div', { class: 'window' })
  const canvas = h('div', { class: 'canvas' }, rows)
  const element = h('div', { class: 'virtual', tabindex: '0', role: 'region', 'aria-label': label }, canvas)

  const rowAt = (index) => pages.get(Math.floor(index / PAGE))?.[index % PAGE]

  const fetchPage = async (page) => {
    if (pages.has(page) || waiting.has(page)) return
    waiting.add(page)
    const asked = version
    try {
      const answer = await load(page * PAGE, PAGE)
      if (asked !== version) return
      if (pages.size >= KEPT) pages.delete(pages.keys().next().value)
      pages.set(page, answer.rows)
      if (page === 0 || answer.total !== total) {
        total = answer.total
        canvas.style.height = `${total * rowHeight}px`
        loaded(answer)
      }
      paint()
    } catch (error) {
      if (asked === version) failed(error)
    } finally {
      if (asked === version) waiting.delete(page)
    }
  }

  const paint = () => {
    const first = Math.max(0, Math.floor(element.scrollTop / rowHeight) - MARGIN)
    const last = Math.min(total, Math.ceil((element.scrollTop + element.clientHeight) / rowHeight) + MARGIN)
    rows.style.transform = `translateY(${first * rowHeight}px)`
    const drawn = []
    const missing = new Set()
    for (let index = first; index < last; index++) {
      const row = rowAt(index)
      if (row === undefined) missing.add(Math.floor(index / PAGE))
      drawn.push(row === undefined ? h('div', { class: 'row waiting' }, '…') : draw(row, index, index === cursor))
    }
    fill(rows, drawn)
    clearTimeout(timer)
    if (missing.size > 0) timer = setTimeout(() => missing.forEach(fetchPage), REST)
  }

  let isPlanned = false
  const plan = () => {
    if (isPlanned) return
    isPlanned = true
    requestAnimationFrame(() => {
      isPlanned = false
      paint()
    })
  }
  element.addEventListener('scroll', plan, { passive: true })
  new ResizeObserver(plan).observe(element)

  element.addEventListener('click', (event) => {
    const row = event.target.closest('[data-index]')
    if (row !== null) cursor = Number(row.dataset.index)
  })

  const moveTo = (index) => {
    if (total === 0) return
    cursor = Math.max(0, Math.min(total - 1, index))
    const [top, bottom] = [cursor * rowHeight, (cursor + 1) * rowHeight]
    if (top < element.scrollTop) element.scrollTop = top
    else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight
    paint()
  }

  return {
    element,
    /** Fetches everything again, from the top if `isNew`. */
    reload: (isNew) => {
      version += 1
      pages = new Map()
      waiting.clear()
      if (isNew) {
        cursor = 0
        element.scrollTop = 0
      }
      return fetchPage(Math.floor(cursor / PAGE))
    },
    paint,
    moveTo,
    move: (by) => moveTo(cursor + by),
    /** Rows on one screen. */
    pageSize: () => Math.max(1, Math.floor(element.clientHeight / rowHeight) - 1),
    toEnd: () => moveTo(total - 1),
    index: () => cursor,
    current: () => rowAt(cursor),
    /** Returns the row that is `by` rows after the one with this identifier, and makes it current. */
    beside: (id, by) => {
      for (const [page, rows] of pages) {
        const at = rows.findIndex((row) => row.id === id)
        if (at === -1) continue
        const found = rowAt(page * PAGE + at + by)
        if (found !== undefined) cursor = page * PAGE + at + by
        return found
      }
      return undefined
    },
  }
}
