package cli

import (
	"fmt"
	"slices"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/image/oci"
)

// images returns the images of the cluster if there is a bucket, else those of this machine.
func (a *app) images() engine.Images {
	if shared := a.sharedImages(); shared != nil {
		return shared
	}
	return oci.New(oci.Config{Dir: a.imagesFolder()})
}

// imageRules returns the rules of the settings that choose the image of a program.
func imageRules(c *config.Config, store engine.Images) engine.ImageRules {
	rules := engine.ImageRules{Store: store, Origins: map[engine.Origin]string{}, Keys: map[string]string{}}
	if name := onyxImage(c, store); name != "" {
		rules.Origins[engine.OriginOnyx] = name
	}
	for _, rule := range c.Images {
		switch protocol, key, name := config.ImagesRule(rule); {
		case key != "":
			rules.Keys[key] = name
		case protocol != "":
			rules.Origins[engine.Origin(protocol)] = name
		default:
			rules.Default = name
		}
	}
	return rules
}

// onyxImage returns the name of the image that onyx_image names, by name or by reference;
// empty if this machine has none such. The setting is often that of a container backend which
// this service has replaced, and names Onyx's own image. Its packages are also in the set onyx,
// so that Onyx's programs run without that image.
func onyxImage(c *config.Config, store engine.Images) string {
	wanted := c.Onyx.Image
	if wanted == engine.HostImage || wanted == "" {
		return wanted
	}
	list, _ := store.List() // doctor reports what cannot be read
	for _, same := range []func(engine.Image) bool{
		func(i engine.Image) bool { return i.Name == wanted },
		func(i engine.Image) bool { return i.Reference == wanted },
	} {
		if at := slices.IndexFunc(list, same); at >= 0 {
			return list[at].Name
		}
	}
	return ""
}

// missingImage is an image that a setting names and that is not there.
type missingImage struct {
	Setting string `json:"setting"` // "images", "warm_images" or "onyx_image"
	Name    string `json:"name"`
	Effect  string `json:"effect"`
	Cure    string `json:"cure"`
}

// missingImages returns the images that the settings name and that this machine lacks. The
// service starts all the same: they can be added while it runs.
func missingImages(c *config.Config, store engine.Images) (missing []missingImage) {
	add := func(setting, name, effect string) {
		if name == engine.HostImage || isImage(store, name) {
			return
		}
		missing = append(missing, missingImage{setting, name, effect,
			"add it with `airlock images add " + name + " REFERENCE`"})
	}
	for _, rule := range c.Images {
		_, _, name := config.ImagesRule(rule)
		add("images", name, "programs that get it by "+rule+" are refused")
	}
	for _, name := range c.WarmImages {
		add("warm_images", name, "it is not kept ready")
	}
	if name := c.Onyx.Image; name != "" && onyxImage(c, store) == "" {
		missing = append(missing, missingImage{"onyx_image", name,
			"Onyx's programs run in the machine's own environment, for which the set onyx has the packages of Onyx's image",
			"add it with `airlock images add NAME " + command.QuoteForShell(name) + "` and restart the service, or unset it"})
	}
	return missing
}

func isImage(store engine.Images, name string) bool {
	_, found, err := store.Find(name)
	return found && err == nil
}

// warmImages returns the ids of the images whose interpreters are kept ready: none of a cluster, whose
// files come with the first program that wants them.
func (a *app) warmImages() []string {
	if a.sharedImages() != nil {
		return nil
	}
	return warmImages(a.Config, a.images())
}

// warmImages returns the ids of the images whose interpreters are kept ready.
func warmImages(c *config.Config, store engine.Images) (ids []string) {
	for _, name := range c.WarmImages {
		if image, found, err := store.Find(name); found && err == nil && !slices.Contains(ids, image.ID) {
			ids = append(ids, image.ID)
		}
	}
	return ids
}

// warnOfImages logs which images the settings name in vain.
func (a *app) warnOfImages() {
	for _, m := range missingImages(a.Config, a.images()) {
		a.Log.Warn("a setting names an image that is not here", "setting", m.Setting, "image", m.Name,
			"effect", m.Effect, "cure", m.Cure)
	}
}

func (m missingImage) WriteText(p *command.Page) {
	p.Row("images", 13, command.Yellow, "missing", fmt.Sprintf("%s, which %s names: %s. Cure: %s",
		command.Printable(m.Name), m.Setting, m.Effect, m.Cure))
}
