// A layered layout of a graph, left to right: longest paths set the layers, barycentres the order within them.

const SWEEPS = 6;
const BEND = 16;
const MOST_BENDS = 20_000;

/**
 * Lay out nodes. `nodes`: [{id, after: [ids], phase}]. Returns {places: Map(id → {x, y}), edges, width, height}; an edge is
 * {from, to, bends: [{x, y}]}, where it passes the layers between them.
 */
export function layered(nodes, { width = 190, height = 46, gapX = 64, gapY = 16 } = {}) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const wanted = nodes.flatMap((node) => (node.after || []).filter((id) => byId.has(id)).map((id) => ({ from: id, to: node.id, bends: [] })));
  const layers = layersOf(nodes, byId);
  const links = withBends(layers, wanted);
  const size = (id) => (byId.has(id) ? height + gapY : BEND);
  const places = positions(ordered(layers, links), links, size);
  let bottom = 0;
  for (const [id, place] of places) {
    place.x = place.layer * (width + gapX);
    if (byId.has(id)) place.y -= height / 2;
    bottom = Math.max(bottom, place.y + (byId.has(id) ? height : 0));
  }
  const edges = wanted.map((edge) => ({ ...edge, bends: edge.bends.map((id) => places.get(id)) }));
  return { places, edges, width: layers.length * (width + gapX) - gapX, height: bottom };
}

/** Put a bend into each layer that an edge passes, so that it gets a place between the nodes. Returns all parts of edges. */
function withBends(layers, edges) {
  const layerOf = new Map(layers.flatMap((layer, index) => layer.map((id) => [id, index])));
  const distance = ({ from, to }) => layerOf.get(to) - layerOf.get(from);
  const bent = edges.reduce((sum, edge) => sum + distance(edge) - 1, 0) <= MOST_BENDS;
  return edges.flatMap((edge) => {
    for (let at = 1; bent && at < distance(edge); at += 1) {
      const id = `${edge.from}>${edge.to}@${at}`;
      edge.bends.push(id);
      layers[layerOf.get(edge.from) + at].push(id);
    }
    const path = [edge.from, ...edge.bends, edge.to];
    return path.slice(1).map((id, at) => [path[at], id]);
  });
}

/** The nodes of each layer: after all they depend on, and after all earlier phases. */
function layersOf(nodes, byId) {
  const depth = new Map();
  const phases = [...new Set(nodes.map((node) => node.phase || 0))].sort((a, b) => a - b);
  let base = 0;
  for (const phase of phases) {
    const members = nodes.filter((node) => (node.phase || 0) === phase);
    for (const node of members) visit(node, byId, depth, base);
    base = Math.max(base, ...members.map((node) => depth.get(node.id) + 1));
  }
  const layers = [];
  for (const node of nodes) (layers[depth.get(node.id)] ??= []).push(node.id);
  return Array.from(layers, (layer) => layer || []);
}

/** Set the depth of a node, without recursion, so that long chains do not overflow the stack. */
function visit(start, byId, depth, base) {
  const stack = [start];
  const open = new Set();
  while (stack.length) {
    const node = stack[stack.length - 1];
    const before = (node.after || []).map((id) => byId.get(id)).filter(Boolean);
    const missing = before.filter((each) => !depth.has(each.id) && !open.has(each.id));
    if (missing.length && !depth.has(node.id)) {
      open.add(node.id);
      stack.push(...missing);
    } else {
      stack.pop();
      depth.set(node.id, before.reduce((deepest, each) => Math.max(deepest, (depth.get(each.id) ?? 0) + 1), base));
    }
  }
}

/** Reorder each layer by the mean position of its neighbours, forwards and backwards. */
function ordered(layers, edges) {
  const up = neighbours(edges, 1, 0);
  const down = neighbours(edges, 0, 1);
  let rank = ranks(layers);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const links = sweep % 2 ? down : up;
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const weight = new Map(layer.map((id) => [id, mean((links.get(id) || []).map((other) => rank.get(other))) ?? rank.get(id)]));
      layer.sort((a, b) => weight.get(a) - weight.get(b));
      layer.forEach((id, index) => rank.set(id, index / Math.max(layer.length - 1, 1)));
    }
    rank = ranks(layers);
  }
  return layers;
}

const ranks = (layers) => new Map(layers.flatMap((layer) => layer.map((id, index) => [id, layer.length > 1 ? index / (layer.length - 1) : 0.5])));

function neighbours(edges, from, to) {
  const found = new Map();
  for (const edge of edges) {
    if (!found.has(edge[from])) found.set(edge[from], []);
    found.get(edge[from]).push(edge[to]);
  }
  return found;
}

const mean = (numbers) => (numbers.length ? numbers.reduce((sum, each) => sum + each, 0) / numbers.length : null);

/** Place nodes and bends near the mean of those before them, without overlaps; `y` is the middle of each. */
function positions(layers, edges, size) {
  const length = (layer) => layer.reduce((sum, id) => sum + size(id), 0);
  const tallest = Math.max(...layers.map(length), 1);
  const up = neighbours(edges, 1, 0);
  const places = new Map();
  layers.forEach((layer, index) => {
    let next = (tallest - length(layer)) / 2;
    const wanted = layer.map((id) => {
      const own = next + size(id) / 2;
      next += size(id);
      return mean((up.get(id) || []).map((other) => places.get(other)?.y ?? own)) ?? own;
    });
    const found = spread(wanted, layer.map(size), tallest);
    layer.forEach((id, at) => places.set(id, { layer: index, y: found[at] }));
  });
  const top = Math.min(...layers.flat().map((id) => places.get(id).y - size(id) / 2), Infinity);
  for (const place of places.values()) place.y -= Number.isFinite(top) ? top : 0;
  return places;
}

/** Move middles apart so that neighbours do not overlap, and stay above `most` if they can. */
function spread(wanted, sizes, most) {
  const found = [...wanted];
  const apart = (at) => (sizes[at] + sizes[at - 1]) / 2;
  for (let at = 1; at < found.length; at += 1) found[at] = Math.max(found[at], found[at - 1] + apart(at));
  if (!found.length) return found;
  const last = found.length - 1;
  found[last] = Math.min(found[last], Math.max(most, sizes.reduce((sum, each) => sum + each, 0)) - sizes[last] / 2);
  for (let at = last; at > 0; at -= 1) found[at - 1] = Math.min(found[at - 1], found[at] - apart(at));
  return found;
}
